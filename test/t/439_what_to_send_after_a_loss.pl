# matrix: E-5
# A Redis loses what it was given some time after it was emitted, and it is not sent again by itself: because seek() has put the
# route somewhere else since, because the destination says warn. What the log, the audit and doctor() say to call sends it.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "timezone = 'Asia/Kolkata'\ndatestyle = 'German'\n");
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my (%redis, %sent);
sub emit { my ($name, $count) = @_; my $from = ($sent{$name} // 0) + 1; $sent{$name} = $from + $count - 1; emit_counted($node, $name, [qw(a b)], $from, $sent{$name}); return }
sub there { my ($name) = @_; return by_key([ grep { defined } map { $_->{payload} } @{ $redis{$name}->entries($name) } ]) }
# Each event of a key that is there, once.
sub ever { my ($name, $key) = @_; my %seen; return join ' ', sort { $a <=> $b } grep { !$seen{$_}++ } split / /, there($name)->{$key} // '' }
sub audit { my ($name, $action, $what) = @_; return sql("SELECT $what FROM outbox.audit WHERE route = '$name' AND action = '$action' ORDER BY at LIMIT 1") }

my %options = (miss => '', late => q(, on_lost_writes 'warn'));
foreach my $name (sort keys %options)
{
	$redis{$name} = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
	redis_route($node, $redis{$name}, $name, aggregate_types => "'{$name}'", topic => "'$name'", server_options => $options{$name});
	emit($name, 10);
}
ok(wait_idle($node), 'events are delivered');
foreach my $name (sort keys %options)
{
	$redis{$name}->command('SAVE');
	$redis{$name}->stop;
	emit($name, 10);
}
$_->restart foreach values %redis;
ok(wait_idle($node), 'others wait for Redis, and are delivered late');
is_deeply(there($_), { map { $_ => join ' ', 1 .. 20 } qw(a b) }, "$_: all are there") foreach sort keys %redis;
sql(q{CALL outbox.seek('miss', 'infinity', dry_run => false, reason => 'a test')});
emit($_, 3) foreach sort keys %redis;
ok(wait_idle($node), 'a few more are delivered');

$_->kill9 foreach values %redis;
$_->restart foreach values %redis;
ok(wait_until(sub { audit('miss', 'rewind', 'count(*) OVER ()') eq '1' }, 60), 'miss: the lane is put back to seek()');
ok(wait_until(sub { audit('late', 'lost writes', 'count(*) OVER ()') eq '1' }, 60), 'late: the loss is said');
ok(wait_idle($node), 'idle');
is_deeply(there('miss'), { map { $_ => join ' ', 1 .. 10, 21 .. 23 } qw(a b) }, 'miss: what came after seek() is there again, and no more');
is_deeply(there('late'), { map { $_ => join ' ', 1 .. 10 } qw(a b) }, 'late: nothing was sent again');

# As it stands in the log, and in doctor() with all of the time.
my $log = slurp_file($node->logfile);
my %calls;
foreach my $name (sort keys %redis)
{
	my $time = qr/'(\d{4}-[-0-9: .]+\+00)'/;
	my $advice = qr/outbox\.seek\(\) to $time or outbox\.replay\(since => $time\) sends it/;
	my ($seek, $replay) = $log =~ /WARNING:  outbox: destination "$name": .* $advice/ or fail("$name: the log says what to call");
	is($seek, $replay, "$name: from the same time on");
	like(audit($name, $name eq 'late' ? 'lost writes' : 'rewind', 'reason'), qr/ outbox\.seek\(\) to '\Q$seek\E'/, "$name: the audit says the same");
	is(audit($name, $name eq 'late' ? 'lost writes' : 'rewind', q{detail ->> 'missing_since'}), $seek, "$name: its detail, too");
	like(sql(qq{SELECT detail FROM outbox.doctor() WHERE "check" = 'destination' AND detail LIKE '%"$name"%'}), qr/LOST_WRITES: .*$advice/, "$name: so does doctor()");
	$calls{$name} = $seek;
}
is(audit('late', 'lost writes', q{detail ? 'missing_before'}), 'f', 'late: what it delivers now is among it');
my $before = audit('miss', 'rewind', q{detail ->> 'missing_before'});
like($log, qr/what was delivered before \Q$before\E, when its lanes began anew, is not sent/, 'miss: it is only what is older than seek()');

sql("CALL outbox.replay(since => '$calls{miss}', until => '$before', route => 'miss', dry_run => false, reason => 'lost')");
ok(wait_idle($node), 'idle');
ok(wait_until(sub { ever('miss', 'a') eq join(' ', 1 .. 23) && ever('miss', 'b') eq join(' ', 1 .. 23) }, 60), 'replay() sends what is missing')
	or diag(explain there('miss'));
sql("CALL outbox.seek('late', '$calls{late}', dry_run => false, reason => 'lost')");
ok(wait_idle($node), 'idle');
is(ever('late', $_), join(' ', 1 .. 23), "so does seek(): $_") foreach qw(a b);
no_server_crashed($node);
done_testing();

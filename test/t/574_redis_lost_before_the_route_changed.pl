# matrix: E-5
# A Redis loses what a route delivered before alter_route(): it is sent again as the route is now. What that takes no more, or
# sends elsewhere, is told by alter_route(), the log, the audit and doctor(), and what these say to call sends it. What was delivered
# from where it was parked is sent again all the same. A route that takes as much as before has nothing to tell.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "timezone = 'Asia/Kolkata'\ndatestyle = 'German'\n");
my (%redis, %said);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub notices { my ($query) = @_; return ($node->psql('postgres', $query))[2] }
sub emit
{
	my ($from, $to, @types) = @_;
	sql("SELECT count(outbox.emit_text('$_', 'k', CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END, 'k ' || i)) FROM generate_series($from, $to) i") foreach @types;
	return;
}
sub entries { my ($name, $stream) = @_; return [ grep { defined } map { $_->{payload} } @{ $redis{$name}->entries($stream) } ] }
sub there { my ($name, $stream) = @_; return by_key(entries($name, $stream))->{k} // '' }
# Each event that is there, once.
sub ever { my ($name, $stream) = @_; my %seen; return join ' ', sort { $a <=> $b } grep { !$seen{$_}++ } split / /, there($name, $stream) }
sub comes { my ($name, $stream, $what, @events) = @_; return ok(wait_until(sub { ever($name, $stream) eq "@events" }, 60), "$name: $what") || diag(there($name, $stream)) }
sub audit { my ($name, $what) = @_; return sql("SELECT $what FROM outbox.audit WHERE route = '$name' AND action IN ('rewind', 'lost writes') ORDER BY at LIMIT 1") }

my @types = qw(order payment ev moved mode late wide warn back);
my %routes = (split => [ aggregate_types => q('{order,payment}') ], warn => [ server_options => q(, on_lost_writes 'warn') ]);
foreach my $name (qw(split ev moved mode late wide warn back))
{
	$redis{$name} = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
	redis_route($node, $redis{$name}, $name, aggregate_types => "'{$name}'", topic => q('{aggregate_type}'), @{ $routes{$name} // [] });
}
emit(1, 10, @types);
ok(wait_idle($node), 'events are delivered');
$_->command('SAVE') foreach values %redis;
emit(11, 20, @types);
my $due = sql(q{SELECT outbox.emit_text('late', 'k', 'odd', 'k 100', deliver_at => clock_timestamp() + interval '1 s')});
sql(q{SELECT outbox.alter_route('back', aggregate_types => '{back,gone}')});
emit(11, 12, 'gone');
comes('late', 'late', 'a delayed event is delivered, too', 1 .. 20, 100);
comes('back', 'gone', 'what it takes for a while is delivered', 11, 12);
ok(wait_idle($node), 'idle');

# The routes are changed. alter_route() says what that means for what is delivered, where it means anything.
my $sent_as_now = qr/NOTICE:  what route "\w+" has delivered is sent again as the route is now if its destination loses it/;
my $narrowed = qr/$sent_as_now\n[^\n]*What it takes no more is not sent again\.\n/;
like(notices(q{BEGIN; SELECT outbox.alter_route('split', aggregate_types => '{order}');
	SELECT outbox.create_route('payments', 'split', '{payment}', topic => '{aggregate_type}'); COMMIT}), $narrowed, 'split: said beforehand');
like(notices(q{SELECT outbox.alter_route('ev', event_types => '{odd}')}), $narrowed, 'ev: said beforehand');
like(notices(q{SELECT outbox.alter_route('moved', topic => 'new')}), qr/$sent_as_now\n[^\n]*What went elsewhere goes where the route sends it now/, 'moved: said beforehand');
like(notices(q{SELECT outbox.alter_route('mode', topic => 'list', options => '{"mode": "list"}')}), $sent_as_now, 'mode: said beforehand');
like(notices(q{SELECT outbox.alter_route('late', aggregate_types => '{none}')}), $narrowed, 'late: said beforehand');
like(notices(q{SELECT outbox.alter_route('warn', aggregate_types => '{none}')}), $narrowed, 'warn: said beforehand');
unlike(notices(q{SELECT outbox.alter_route('wide', aggregate_types => '{wide,wider}', max_attempts => 3)}), $sent_as_now, 'wide: nothing to say');
like(notices(q{SELECT outbox.alter_route('back', aggregate_types => '{back}')}), $narrowed, 'back: said beforehand');
emit(21, 22, qw(order payment moved wide ev));
comes('split', 'payment', 'what comes now goes by its new route', 1 .. 22);
ok(wait_idle($node), 'idle');

$_->kill9 foreach values %redis;
$_->restart foreach values %redis;
foreach my $name (sort keys %redis)
{
	ok(wait_until(sub { audit($name, 'count(*) OVER ()') ne '' }, 60), "$name: the loss is said");
}
ok(wait_until(sub { audit('payments', 'count(*) OVER ()') ne '' }, 60), 'payments: of the new route, too');
ok(wait_idle($node), 'idle');

# As the route is now.
comes('split', 'order', 'what it still takes is sent again', 1 .. 22);
is(ever('split', 'payment'), join(' ', 1 .. 10, 21, 22), 'split: what the new route delivered, too, and no more');
is(ever('ev', 'ev'), join(' ', 1 .. 10, 11, 13, 15, 17, 19, 21), 'ev: by event type');
is(ever('moved', 'moved') . ' | ' . ever('moved', 'new'), join(' ', 1 .. 10) . ' | ' . join(' ', 11 .. 22), 'moved: to where it sends now');
is(ever('late', 'late'), join(' ', 1 .. 10, 100), 'late: what was delivered from where it was parked is sent again');
is(audit('late', q{detail ->> 'parked_events'}), '1', 'late: and the audit says so');
is(ever('wide', 'wide'), join(' ', 1 .. 22), 'wide: all is there');
is(ever('warn', 'warn'), join(' ', 1 .. 10), 'warn: nothing was sent again');
is(ever('back', 'back') . ' | ' . ever('back', 'gone'), join(' ', 1 .. 20) . ' | ', 'back: what it took for a while is not');
is(audit($_, q{detail ?| '{missing_since,missing_before}'}), 'f', "$_: nothing is missing") foreach qw(wide payments);

# What is missing is said: in the log, the audit and doctor().
my $log = slurp_file($node->logfile);
my $time = qr/'(\d{4}-[-0-9: .]+\+00)'/;
foreach my $name (qw(split ev moved mode late back warn))
{
	my ($altered, $advice) = $log =~ /WARNING:  outbox: destination "$name": [^\n]*; (what it took before outbox\.alter_route\(\) at [-0-9: .]+\+00 )([^\n]*)/
		or fail("$name: the log says so") || next;
	my $moved = $name =~ /^mo/;
	like($advice, $moved ? qr/^goes where it sends now: / : qr/^and takes no more is not sent: outbox\.seek\(\) to $time of a route that takes it, or /, "$name: what happens");
	($said{$name}) = $advice =~ /a new route with start => $time/ or fail("$name: and what to call");
	like(audit($name, 'reason'), qr/\Q$altered$advice\E/, "$name: the audit says the same");
	is(audit($name, q{detail ->> 'missing_since'}), $said{$name}, "$name: its detail, too");
	is(audit($name, q{detail ? 'missing_before'}), $name eq 'warn' ? 'f' : 't', "$name: until when");
	next if $name eq 'warn';
	like(sql(qq{SELECT detail FROM outbox.doctor() WHERE "check" = 'destination' AND detail LIKE '%"$name"%'}), qr/LOST_WRITES: (?:[^\n]*; )?\Q$altered\E[^\n]*'\Q$said{$name}\E'/, "$name: so does doctor()");
}

# What it says to call sends it.
sql("CALL outbox.seek('payments', '$said{split}', dry_run => false, reason => 'lost')");
comes('split', 'payment', 'seek() of the route that takes it sends what is missing', 1 .. 22);
sql(qq{SELECT outbox.create_route('ev again', 'ev', '{ev}', event_types => '{even}', topic => '{aggregate_type}', start => '$said{ev}')});
comes('ev', 'ev', 'a new route sends what is missing', 1 .. 22);
sql(qq{SELECT outbox.create_route('moved again', 'moved', '{moved}', topic => '{aggregate_type}', start => '$said{moved}')});
comes('moved', 'moved', 'to where it was', 1 .. 22);
sql(qq{SELECT outbox.create_route('warn again', 'warn', '{warn}', topic => '{aggregate_type}', start => '$said{warn}')});
comes('warn', 'warn', 'a new route sends what is missing', 1 .. 20);
sql(qq{SELECT outbox.create_route('gone', 'back', '{gone}', topic => '{aggregate_type}', start => '$said{back}')});
comes('back', 'gone', 'a new route sends what is missing', 11, 12);
no_server_crashed($node);
done_testing();

# A dump, restored and adopted: what the original had delivered is not sent again, what it had not goes to those routes
# that lack it, byte for byte, and what was emitted in the copy before adopt() comes behind it. Whatever way it was
# dumped and restored; twice; beside the original, and in a cluster of its own.
# matrix: C5 C11 C16 R14
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = "max_worker_processes = 24\n";
my $redis = Outbox::Redis->start;
my $node = new_node(conf => $conf);
redis_route($node, $redis, 'a', topic => q('{aggregate_type}'), lanes => 3);
redis_route($node, $redis, 'b', topic => q('b')); # the same Redis under another name
redis_route($node, $redis, 'd', topic => q('d'), aggregate_types => q('{none}'));
my $n = 0;

# Numbered events of seven keys, each in a transaction of its own; some without a key, some in a subtransaction.
sub emit
{
	my ($server, $database, $count, %more) = @_;
	my $sql = '';
	foreach (1 .. $count)
	{
		$n++;
		my $key = $n % 10 == 0 ? 'NULL::text' : "'k" . $n % 7 . "'";
		my $call = "outbox.emit('order', $key, 'counted', '{\"n\": $n}', '{\"by\": \"$database\"}')";
		$sql .= $n % 5 == 0 ? "BEGIN; SAVEPOINT s; SELECT $call; RELEASE s; COMMIT;\n" : "SELECT $call;\n";
	}
	my ($status, undef, $err) = $server->psql($database, $sql, on_error_stop => 1);
	is($status, 0, "$count events are emitted in $database") or diag($err);
	return $err;
}
sub workers_leave { my ($server, $database) = @_; return wait_for_value($server, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay' AND datname = '$database'", '0') }

# What a stream holds: bytes by id, how often each came, and whether first occurrences are in order by key.
sub look
{
	my ($stream) = @_;
	my (%seen, %bytes, %last, @numbers);
	my $order = 1;
	foreach my $entry (@{ $redis->entries($stream) })
	{
		my ($number) = $entry->{payload} =~ /"n": (\d+)/;
		push @{ $bytes{ $entry->{id} } }, join '|', map { "$_=$entry->{$_}" } grep { $_ ne '_entry' } sort keys %$entry;
		next if $seen{$number}++;
		push @numbers, $number;
		next if !defined $entry->{key} || $number > 9000;
		$order = 0 if $number <= ($last{ $entry->{key} } // 0);
		$last{ $entry->{key} } = $number;
	}
	my @differ = grep { my %of = map { $_ => 1 } @{ $bytes{$_} }; keys %of > 1 } keys %bytes;
	return { seen => \%seen, numbers => join(' ', sort { $a <=> $b } @numbers), order => $order, differ => scalar @differ,
		twice => join ' ', sort { $a <=> $b } grep { $seen{$_} > 1 } keys %seen };
}
sub numbers { return join ' ', @_ }

# --- the original: a has had 1 .. 70, b has had 1 .. 40, a third topic is in trouble, one event is due one day ---
emit($node, 'postgres', 40);
ok(wait_idle($node), 'everything is delivered');
$node->safe_psql('postgres', q{SELECT outbox.pause('b', reason => 'to have another position')});
emit($node, 'postgres', 30);
ok(wait_until(sub { $redis->xlen('order') == 70 }), 'one route goes on, the other waits');
$node->safe_psql('postgres', q{SELECT outbox.create_route('late', server => 'a', topic => 'late')});
$node->safe_psql('postgres', q{SELECT outbox.emit('order', 'k1', 'reminder', '{"n": 9999}', deliver_at => now() + interval '20 seconds')});
my $due = time + 20;
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'scheduled'}, '2'), 'a reminder is scheduled on two routes');
# Two topics leave their lanes; their events wait in the log.
$redis->command('SET', $_, 'a string') foreach qw(ill sick);
my %ill = (ill => 9001, sick => 9002);
$node->safe_psql('postgres', qq{SELECT outbox.emit('$_', 'k1', 'counted', '{"n": $ill{$_}}')}) foreach sort keys %ill;
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.side_topic}, '2', 60), 'two topics have left their lanes');
$node->safe_psql('postgres', 'ALTER SYSTEM SET outbox.enabled = off');
$node->reload;
ok(workers_leave($node, 'postgres'), 'its workers leave');
# pg_restore -j begins with the largest table: here that is not the one that others refer to.
$node->safe_psql('postgres', q{INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, event_type, topic, payload)
	SELECT (SELECT id FROM outbox.route WHERE name = 'd'), 0, now(), gen_random_uuid(), 'none', 'large', 'd', decode(repeat('00', 2000), 'hex') FROM generate_series(1, 500)});
emit($node, 'postgres', 20); # 71 .. 90 wait for a and b; late gets 71 .. 90
my $directory = $node->basedir;
my $db = $node->connstr('postgres');
$node->command_ok([ 'pg_dump', '-f', "$directory/plain.sql", '-d', $db ], 'a plain dump');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$directory/custom", '-d', $db ], 'a custom dump');
$node->safe_psql('template1', 'CREATE DATABASE twin TEMPLATE postgres');
my $base = look('order');
is($base->{numbers}, numbers(1 .. 70), 'a has had seventy events');

sub restore
{
	my ($server, $database, $how) = @_;
	my $to = $server->connstr($database);
	return if $how eq 'template';
	$server->safe_psql('template1', "CREATE DATABASE $database TEMPLATE template0");
	if ($how eq 'plain') { $server->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', "$directory/plain.sql", '-d', $to ], 'restored from plain') }
	elsif ($how eq 'custom') { $server->command_ok([ 'pg_restore', '--exit-on-error', '-j4', '-d', $to, "$directory/custom" ], 'restored by four jobs') }
	else
	{
		$server->command_ok([ 'pg_restore', '-s', '-d', $to, "$directory/custom" ], 'the schema is restored');
		$server->command_ok([ 'pg_restore', '-a', ($how eq 'disabled' ? '--disable-triggers' : ()), '-d', $to, "$directory/custom" ], "the data is: $how");
	}
	return;
}

# One copy: restored, used, looked at, adopted, and what came of it.
sub copy
{
	my ($server, $database, $how) = @_;
	note("--- $how ---");
	my $first = $n + 1;
	restore($server, $database, $how);
	$redis->command('DEL', qw(order b late ill sick));
	$redis->command('SET', $_, 'a string') foreach qw(ill sick);
	my $warned = emit($server, $database, 5);
	my @warnings = $warned =~ /WARNING:.*is a copy/g;
	is(scalar @warnings, 1, 'emit() says once that this is a copy');
	like($warned, qr/HINT:.*outbox\.adopt\(\)/, 'and what to do');
	my $own = $server->safe_psql($database, "SELECT id FROM outbox_internal.log WHERE convert_from(payload, 'UTF8') = '{\"n\": $first}'");
	is($server->safe_psql($database, "SELECT string_agg(DISTINCT state, ' ') FROM outbox.status('$own') WHERE route <> 'b'"), 'pending', 'status() does not call it delivered');
	is($redis->xlen('order') + $redis->xlen('late'), 0, 'it is silent');
	is($server->safe_psql($database, q{SELECT status FROM outbox.doctor() WHERE "check" = 'identity'}), 'problem', 'doctor() says so');
	my ($status, $sent, $err) = $server->psql($database, 'SELECT outbox.adopt()');
	is($status, 0, 'adopted') or diag $err;
	is($sent, $how eq 'template' ? 0 : 53, 'it says how many events are still to be sent somewhere'); # 41 .. 90, two ill ones, the reminder for b
	emit($server, $database, 5);
	my $last = $n;
	$server->safe_psql($database, q{SELECT outbox.resume('b')});
	# Lanes do not wait for each other: that one event has come says nothing of another lane's.
	my %whole = (order => numbers(71 .. 90, $first .. $last), b => numbers(41 .. 90, $first .. $last), late => numbers(71 .. 90, $first .. $last));
	my $counted = sub { $_[0]{numbers} =~ s/ 9\d\d\d//gr };
	wait_until(sub { !grep { $counted->(look($_)) ne $whole{$_} } keys %whole }, 60);
	my ($a, $b, $late) = map { look($_) } qw(order b late);
	is($counted->($a), $whole{order}, 'a sends what it had not sent, and what was emitted in the copy before adopt() and after');
	is($counted->($b), $whole{b}, 'b has another position');
	is($counted->($late), $whole{late}, 'a route that began later gets nothing older');
	is("$a->{order}$b->{order}$late->{order}", '111', 'in order per key');
	is("$a->{twice}$b->{twice}$late->{twice}", '', 'nothing twice');
	$redis->command('DEL', qw(ill sick));
	ok(wait_until(sub { $redis->xlen('ill') == 1 && $redis->xlen('sick') == 1 }, 90), 'topics that were in trouble get theirs');
	my $states = "SELECT string_agg(DISTINCT s.state, ' ') FROM outbox_internal.log l, outbox.status(l.id) s WHERE s.route = 'a' AND l.event_type = 'counted'
		AND l.created_at < (SELECT created_at FROM outbox_internal.log WHERE id = '$own')";
	ok(wait_until(sub { $server->safe_psql($database, $states) eq 'delivered' }, 30), 'status() tells of the events of the original');
	is($server->safe_psql($database, 'SELECT count(*) FROM outbox_internal.foreign_event'), '0', 'nothing of the dump is left behind');
	is($server->safe_psql($database, 'SELECT count(*) FROM outbox_internal.log'), 93 + $last - $first + 1, 'the log has all of the original, too');
	is($server->safe_psql($database, 'SELECT outbox.adopt()'), '0', 'adopted again: nothing to do');
	is($server->safe_psql($database, 'SELECT count(*) FROM outbox_internal.lane WHERE home IS DISTINCT FROM outbox_internal.home()'), '0', 'every lane is at home here');
	is($server->safe_psql($database, q{SELECT string_agg("check" || ': ' || detail, '; ') FROM outbox.doctor() WHERE status = 'problem'}), '', 'doctor() finds no problem');
	is($server->safe_psql($database, q{SELECT count(*) FROM pg_trigger WHERE tgname = 'log_guard' AND tgenabled <> 'A'}), '0', 'the log is guarded');
	my $due_count = sub { scalar grep { $_->{type} eq 'reminder' } @{ $redis->entries($_[0]) } };
	if (time < $due + 1) { ok(wait_until(sub { $due_count->('order') == 1 }, 60), 'the reminder comes when it is due') }
	ok(wait_until(sub { $due_count->('order') == 1 && $due_count->('late') == 1 }), 'and once on each route');
	is(join('', map { look($_)->{twice} } qw(order b late)), '', 'nothing has come twice since');
	return;
}

# In a cluster of its own, whose transaction ids are lower than the original's; and beside the original.
my $other = new_node(name => 'other', conf => $conf, extension => 0);
copy($other, 'one', 'custom');
$other->safe_psql('template1', 'DROP DATABASE one');
foreach my $how (qw(apart disabled))
{
	copy($other, $how, $how);
	$other->safe_psql('template1', "DROP DATABASE $how");
}
$other->stop;
$node->safe_psql('postgres', 'ALTER SYSTEM RESET outbox.enabled');
$node->safe_psql('postgres', "SELECT outbox.pause('$_', reason => 'the original is not what is looked at') ") foreach qw(a late);
$node->reload;
foreach my $how (qw(plain template))
{
	my $database = $how eq 'template' ? 'twin' : $how;
	copy($node, $database, $how);
	$node->safe_psql('template1', "DROP DATABASE $database");
}
no_server_crashed($_) foreach $node, $other;
done_testing();

# Destinations that are down, that answer nothing and that refuse the password: the server's log says so in a few lines and
# does not go on saying it, whatever the log level no secret is in it, nor in a view, a command line, an environment or
# Redis's own log. OUTBOX_TEST_DOWN_SECONDS sets how long they are down.
# matrix: A14 G4 R25 D21
# ring: long
use strict;
use warnings;

use IO::Socket::INET;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{OUTBOX_TEST_DOWN_SECONDS} // 16;
my $secret = 'canary-7f3a91';
my $node = new_node(conf => "outbox.workers = 2\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', $_[0]) }

# No process listens on the one port; on the other one does and never answers.
my $closed = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');
my $refused = $closed->sockport;
close $closed;
my $hole = IO::Socket::INET->new(Listen => 100, LocalAddr => '127.0.0.1');
my $silent = $hole->sockport;
$redis->command('CONFIG', 'SET', 'requirepass', 'another');
$redis->{password} = 'another';
my %servers = (
	kafka_refused => [ 'outbox_kafka', qq("bootstrap.servers" '127.0.0.1:$refused', "security.protocol" 'sasl_plaintext', "sasl.mechanism" 'PLAIN') ],
	kafka_silent => [ 'outbox_kafka', qq("bootstrap.servers" '127.0.0.1:$silent', "security.protocol" 'sasl_plaintext', "sasl.mechanism" 'PLAIN') ],
	redis_refused => [ 'outbox_redis', "host '127.0.0.1', port '$refused'" ],
	redis_silent => [ 'outbox_redis', "host '127.0.0.1', port '$silent', connect_timeout '1000'" ],
	redis_wrong => [ 'outbox_redis', "host '127.0.0.1', port '$redis->{port}'" ]);
my $before = -s $node->logfile;
foreach my $name (sort keys %servers)
{
	my ($wrapper, $options) = @{ $servers{$name} };
	my $mapping = $wrapper eq 'outbox_kafka' ? qq("sasl.username" 'somebody', "sasl.password" '$secret') : "password '$secret'";
	sql("CREATE SERVER $name FOREIGN DATA WRAPPER $wrapper OPTIONS ($options)");
	sql("CREATE USER MAPPING FOR CURRENT_USER SERVER $name OPTIONS ($mapping)");
	sql("SELECT outbox.create_route('$name', server => '$name')");
}
emit_counted($node, 'order', [ 'a', 'b' ], 1, 200);

# --- how much is said -------------------------------------------------------------------------------------------------
my $start = time;
my @marks = (-s $node->logfile);
my @lines;
my $emitted = 200;
foreach my $half (1, 2)
{
	while (time - $start < $seconds * $half / 2) { emit_counted($node, 'order', ['c'], $emitted + 1, $emitted + 5); $emitted += 5; sleep 0.2 }
	if ($half == 1)
	{
		wait_for_value($node, q(SELECT count(*) FROM outbox.destination WHERE error_class IS NOT NULL), scalar keys %servers, 60);
		$start = time - $seconds / 2;
	}
	push @lines, [ split /\n/, slurp_file($node->logfile, $marks[-1]) ];
	push @marks, -s $node->logfile;
}
is(sql(q(SELECT string_agg(server, ' ' ORDER BY server) FROM outbox.destination WHERE error_class IS NOT NULL)), join(' ', sort keys %servers),
	'all destinations are in trouble') or diag(sql('SELECT server, state, error_class, error_code FROM outbox.destination'));
is(sql(q(SELECT count(*) FROM outbox_internal.parked)), '0', 'no event is charged');
foreach my $name (sort keys %servers)
{
	my $n = () = slurp_file($node->logfile, $before) =~ /WARNING:  outbox: destination "$name" is in trouble: /g;
	ok($n >= 1 && $n <= 2, "$name: the log tells of it: $n");
}
cmp_ok(scalar @{ $lines[0] }, '<=', 40, scalar(@{ $lines[0] }) . ' lines in the first half') or diag(join "\n", @{ $lines[0] });
cmp_ok(scalar @{ $lines[1] }, '<=', 10, scalar(@{ $lines[1] }) . ' lines in the second half, of ' . $seconds / 2 . ' s') or diag(join "\n", @{ $lines[1] });

# --- what is not ------------------------------------------------------------------------------------------------------
sql(q(ALTER SYSTEM SET log_min_messages = 'debug3'));
sql('SELECT pg_reload_conf()');
my %old = map { $_ => 1 } relay_pids($node);
sql(q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'outbox relay'));
ok(wait_until(sub { my @now = relay_pids($node); return @now == keys %old && !grep { $old{$_} } @now }, 60), 'new workers');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.destination WHERE error_class IS NOT NULL), '5', 60), 'the same with a log that says all');
my @processes = map { ($_, child_pids($_)) } relay_pids($node);
cmp_ok(scalar @processes, '>=', 3, 'workers and sink processes are looked at');
foreach my $what (qw(cmdline environ))
{
	my $found = grep { my $text = eval { slurp_file("/proc/$_/$what") } // ''; index($text, $secret) >= 0 } @processes;
	is($found, 0, "no $what holds the secret");
}
foreach my $from (qw(outbox.lag outbox.destination outbox.worker outbox.dead_letter outbox.audit outbox.doctor()),
	'(SELECT s.* FROM (SELECT id FROM outbox_internal.log LIMIT 5) e, outbox.status(e.id) s)', '(SELECT * FROM pg_stat_activity WHERE pid <> pg_backend_pid())')
{
	ok(index(sql("SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM $from t"), $secret) < 0, "the secret is not in $from");
}
sql(q(ALTER SYSTEM RESET log_min_messages));
sql('SELECT pg_reload_conf()');
my $log = slurp_file($node->logfile);
like($log, qr/DEBUG/, 'the log has all levels');
$log =~ s/^.*(?:CREATE USER MAPPING).*$//mg;
is(() = $log =~ /\Q$secret\E/g, 0, "the server's log does not hold the secret");
my $said = slurp_file("$redis->{dir}/server.log");
is(() = $said =~ /\Q$secret\E/g, 0, "Redis's log neither");

# --- one is mended ----------------------------------------------------------------------------------------------------
sql(q(ALTER USER MAPPING FOR CURRENT_USER SERVER redis_wrong OPTIONS (SET password 'another')));
ok(wait_until(sub { ($redis->xlen('outbox.event.order') // 0) >= $emitted }, 30), 'with the right password all is delivered');

# --- one is away and comes back on a quiet day ------------------------------------------------------------------------
my $mine = q(SELECT state, error_class IS NULL FROM outbox.destination WHERE server = 'redis_wrong');
ok(wait_for_value($node, $mine, 'closed|t', 30), 'all is well');
$redis->command('CONFIG', 'REWRITE'); # the password
$redis->kill9;
ok(wait_for_value($node, $mine, 'open|f', 30), 'the destination is away, and nobody emits');
$redis->restart;
ok(wait_for_value($node, $mine, 'closed|t', 30), 'it is back, and nobody emits: it is said to be well');
is(sql(q(SELECT count(*) FROM outbox.doctor() WHERE status <> 'ok' AND detail LIKE '%"redis_wrong"%')), '0', 'doctor() has nothing to say of it');
no_server_crashed($node);
done_testing();

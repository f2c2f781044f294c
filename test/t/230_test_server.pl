# outbox.test_server(): what is wrong with a destination, told in a moment, by the class and code that the workers would show, with
# what to do. Right and wrong in every way that a newcomer's first hour has; nothing is written there; the program that asks is gone
# whatever ends the question. create_route() says the same in a NOTICE, and makes the route.
use strict;
use warnings;

use IO::Socket::INET;
use IPC::Run ();
use Outbox::Test;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $redis = Outbox::Redis->start;
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub server { my ($name, $options, $wrapper) = @_; return sql("CREATE SERVER $name FOREIGN DATA WRAPPER " . ($wrapper // 'outbox_redis') . " OPTIONS ($options)") }
# The last row, which says what is wrong if anything is: check|ok|class|code.
sub look
{
	my ($arguments, $columns) = @_;
	$columns //= q("check", ok, error_class, error_code);
	my @rows = split /\n/, sql("SELECT $columns FROM outbox.test_server($arguments)");
	return $rows[-1] // '';
}
# The programs that sessions have started. One whose session has gone is nobody's child any more: see gone().
sub programs
{
	return grep { (eval { slurp_file("/proc/$_/comm") } // '') =~ /^outbox-sink/ } map { child_pids($_) } child_pids($node->{_pid});
}
sub gone { my (@pids) = @_; return !grep { (eval { slurp_file("/proc/$_/stat") } // 'x (x) Z') !~ /\) Z/ } @pids }
sub no_program_is_left { my ($what) = @_; return ok(wait_until(sub { !programs() }, 20), "$what: no program is left") }
my $patient = q(timeout => '20 s');

# --- well ------------------------------------------------------------------------------------------------------------------
server('good', "host '127.0.0.1', port '$redis->{port}'");
is(look("'good', $patient"), 'server|t||', 'a Redis that is well');
like(look("'good', $patient", 'detail'), qr/^Redis \d+\.\S+, a primary; hiredis/, 'its version, and what asks');
is(sql(qq{SELECT bool_and(ok), string_agg("check", ' ') FROM outbox.test_server('good', 'some.stream', $patient)}), 't|options login server topic rights', 'with a topic');
is($redis->command('EXISTS', 'some.stream'), 0, 'nothing was written');
$redis->command('XADD', 'some.stream', '*', 'a', 'b');
like(sql(qq{SELECT detail FROM outbox.test_server('good', 'some.stream', $patient) WHERE "check" = 'topic'}), qr/is there$/, 'a stream that is there');
is($redis->xlen('some.stream'), 1, 'and stays as it is');
$redis->command('SET', 'a.string', 'x');
is(look("'good', 'a.string', $patient"), 'topic|f|topic|WRONGTYPE', 'a name that is taken by something else');
is(sql(q{SELECT count(*) FROM outbox.route}), 0, 'all that without a route');

# --- wrong, in each way ------------------------------------------------------------------------------------------------------
my $closed = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');
my $closed_port = $closed->sockport;
close $closed;
my $silent = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1');
my $silent_port = $silent->sockport;

server('closed', "host '127.0.0.1', port '$closed_port'");
is(look("'closed', $patient"), 'connection|f|destination|CONNECT', 'nobody listens');
server('nowhere', "host 'no-such-host.invalid'");
is(look("'nowhere', $patient"), 'connection|f|destination|RESOLVE', 'no such name');
like(look("'nowhere', $patient", 'hint'), qr/resolver/, 'with what to look at');
server('silent', "host '127.0.0.1', port '$silent_port'");
is(look(q{'silent', timeout => '300 ms'}), 'connection|f|destination|TIMEOUT', 'one that never answers');
server('far', "host '192.0.2.1'");
like(look(q{'far', timeout => '300 ms'}), qr/^connection\|f\|destination\|(TIMEOUT|CONNECT)$/, 'an address where nobody is');
server('encrypted', "host '127.0.0.1', port '$redis->{port}', tls 'true'");
like(look(q{'encrypted', timeout => '3 s'}), qr/^connection\|f\|destination\|(TLS|TIMEOUT)/, 'TLS where there is none');

$redis->command('ACL', 'SETUSER', 'app', 'on', '>right', '~app.*', '&*', '+@all');
server('locked', "host '127.0.0.1', port '$redis->{port}'");
sql(q{CREATE USER MAPPING FOR PUBLIC SERVER locked OPTIONS (username 'app', password 'wrong')});
is(look("'locked', $patient"), 'login|f|config|WRONGPASS', 'a wrong password');
like(look("'locked', $patient", 'hint'), qr/^The user mapping of PUBLIC is used\./, 'and whose mapping it is in');
unlike(sql("SELECT t::text FROM outbox.test_server('locked', $patient) t"), qr/wrong[^ ]*['",)]/, 'which is not shown');
sql(q{ALTER USER MAPPING FOR PUBLIC SERVER locked OPTIONS (SET password 'right')});
is(look("'locked', 'app.x', $patient"), 'rights|t||', 'the right one');
is(look("'locked', 'other', $patient"), 'rights|f|topic|NOPERM', 'a stream that the user may not write');
$redis->command('ACL', 'SETUSER', 'app', '-xadd');
is(look("'locked', 'app.x', $patient"), 'rights|f|config|NOPERM', 'a command that it may not use');
$redis->command('ACL', 'SETUSER', 'app', '+xadd', '-multi');
is(look("'locked', 'app.x', $patient"), 'rights|t||', 'without MULTI it may be written to all the same');
is($redis->command('EXISTS', 'app.x'), 0, 'and nothing was');
is(look("'locked', 'other', $patient"), 'rights|f|topic|NOPERM', 'but not another stream');
$redis->command('ACL', 'SETUSER', 'app', '-xadd');
is(look("'locked', 'app.x', $patient"), 'rights|f|config|NOPERM', 'nor without the command');
# What lost writes are noticed by is not needed to deliver.
sub warned { return sql("SELECT hint FROM outbox.test_server('locked', 'app.x', $patient) WHERE \"check\" = 'server' AND ok") }
$redis->command('ACL', 'SETUSER', 'app', '+@all');
is(warned(), '', 'a user with all rights');
$redis->command('ACL', 'SETUSER', 'app', '-xinfo');
like(warned(), qr/^Warning: .*would not be noticed \(NO_LOSS_CHECK\): .*xinfo/, 'without XINFO');
$redis->command('ACL', 'SETUSER', 'app', '+xinfo', '-info');
like(warned(), qr/^Warning: .*would not be noticed \(NO_LOSS_CHECK\): .*info/, 'without INFO');
$redis->command('ACL', 'SETUSER', 'app', '+info', '-exec', '-discard');
is(look("'locked', 'app.x', $patient"), 'rights|t||', 'where a transaction cannot be ended it may be written to');
like(sql("SELECT string_agg(detail, ' ') FROM outbox.test_server('locked', 'app.x', $patient)"), qr/it may be written to, but MULTI or EXEC is refused/, 'one by one');
is($redis->command('EXISTS', 'app.x'), 0, 'and nothing was, here either');
$redis->command('ACL', 'SETUSER', 'app', '+@all');
# The hint is followed as it stands.
$redis->command('ACL', 'SETUSER', 'app', 'resetkeys', '-@all');
my $hint = sql("SELECT hint FROM outbox.test_server('locked', 'app.x', $patient) WHERE NOT ok");
my ($rights) = $hint =~ /^ACL SETUSER \.\.\. (.*?) gives/ or diag($hint);
$redis->command('ACL', 'SETUSER', 'app', split / /, $rights // '');
is(look("'locked', 'app.x', $patient"), 'rights|t||', 'a user without any right has what its hint asked for');
like(sql("SELECT string_agg(detail, ' ') FROM outbox.test_server('locked', 'app.x', $patient)"), qr/it may be written to(?!, but)/, 'transactions among it');
is($redis->command('EXISTS', 'app.x'), 0, 'and is not');
$redis->command('CONFIG', 'SET', 'requirepass', 'secret');
delete $redis->{socket};
is(look("'good', $patient"), 'login|f|config|NOAUTH', 'a password is wanted, and there is no mapping');
like(look("'good', $patient", 'hint'), qr/^There is no user mapping that counts: CREATE USER MAPPING FOR PUBLIC SERVER good/, 'which is what it says');
sql(q{CREATE USER MAPPING FOR PUBLIC SERVER good OPTIONS (password 'secret')});
is(look("'good', $patient"), 'server|t||', 'until there is one');

server('no_such_db', "host '127.0.0.1', port '$redis->{port}', db '99'");
sql(q{CREATE USER MAPPING FOR PUBLIC SERVER no_such_db OPTIONS (password 'secret')});
is(look("'no_such_db', $patient", '"check", error_code, hint'), 'login|DB_INDEX|Set option db to a database that the server has.', 'a database that is not there is no question of the user mapping');

# Kafka that is not there: told before the time is over.
server('kafka', qq("bootstrap.servers" '127.0.0.1:$closed_port'), 'outbox_kafka');
is(look("'kafka', $patient"), 'connection|f|destination|_TRANSPORT', 'no broker listens');
my $began = time;
look("'kafka', timeout => '60 s'");
cmp_ok(time - $began, '<', 40, 'and that does not take all of the time');
server('kafka_silent', qq("bootstrap.servers" '127.0.0.1:$silent_port'), 'outbox_kafka');
like(look(q{'kafka_silent', timeout => '500 ms'}), qr/^connection\|f\|destination\|/, 'a broker that never answers');
server('kafka_login', qq("bootstrap.servers" '127.0.0.1:$closed_port'), 'outbox_kafka');
sql(q{CREATE USER MAPPING FOR PUBLIC SERVER kafka_login OPTIONS ("sasl.username" 'a', "sasl.password" 'b')});
is(look("'kafka_login', $patient"), 'options|f|config|BAD_OPTION', 'options that do not fit together');
# What only tunes and the installed library does not know is told, with its version.
my ($library) = `pkg-config --modversion rdkafka` =~ /^([\d.]+)/;
my $knows = version->parse("v$library") >= version->parse('v2.2.0');
server('kafka_newer', qq("bootstrap.servers" '127.0.0.1:$closed_port', "client.dns.lookup" 'use_all_dns_ips'), 'outbox_kafka');
is(sql(qq{SELECT string_agg(detail, '') FROM outbox.test_server('kafka_newer', $patient) WHERE detail LIKE 'left out%'}),
	$knows ? '' : "left out: client.dns.lookup, which librdkafka $library does not know", 'what the library does not know is left out, and told');
is(look("'kafka', 'no such topic!', $patient"), 'topic|f|message|INVALID_TOPIC', 'a name that no topic can have');

# Something else than Kafka: its first bytes are named, and not called an answer that is too long.
my $http = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1') or die "listen: $!";
my $web = fork() // die "fork: $!";
if ($web == 0)
{
	while (my $client = $http->accept)
	{
		$client->sysread(my $asked, 4096);
		$client->syswrite("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
		close $client;
	}
	POSIX::_exit(0);
}
server('kafka_http', q("bootstrap.servers" '127.0.0.1:) . $http->sockport . q('), 'outbox_kafka');
is(look("'kafka_http', $patient"), 'connection|f|destination|_BAD_MSG', 'an HTTP server');
like(look("'kafka_http', $patient", 'hint'), qr/^An HTTP server listens there/, 'which is what it is called');
kill 'KILL', $web;  # by TERM it would stop the node as its parent does
waitpid $web, 0;

# --- the kinds that need no broker ---------------------------------------------------------------------------------------------
sql('CREATE SERVER log FOREIGN DATA WRAPPER outbox_log; CREATE SERVER nothing FOREIGN DATA WRAPPER outbox_null');
is(look(qq{'log', 'x', $patient}), 'connection|t||', 'the server log');
is(look(qq{'nothing', 'x', $patient}), 'connection|t||', 'nowhere');

# --- who may, and what is no server --------------------------------------------------------------------------------------------
sub refused
{
	my ($statement, $pattern, $what) = @_;
	my ($status, $out, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$statement");
	return like($error, $pattern, $what);
}
refused(q{SELECT * FROM outbox.test_server('none')}, qr/42704: server "none" does not exist/, 'a server that does not exist');
refused(q{SELECT * FROM outbox.test_server(NULL)}, qr/22004: server must not be null/, 'none at all');
refused(q{SELECT * FROM outbox.test_server('good', timeout => NULL)}, qr/22004: timeout must not be null/, 'no timeout');
refused(q{SELECT * FROM outbox.test_server('good', timeout => '2 hours')}, qr/22023: timeout must be between/, 'a timeout of hours');
sql(q{CREATE ROLE stranger; CREATE ROLE oncall; SELECT outbox.grant_emit('stranger'); SELECT outbox.grant_operate('oncall')});
refused(q{SET ROLE stranger; SELECT * FROM outbox.test_server('good')}, qr/42501: permission denied for function test_server/, 'who may only emit may not');
is(sql("SET ROLE oncall; SELECT bool_and(ok) FROM outbox.test_server('good', $patient)"), 't', 'an operator may');
no_program_is_left('until here');

# --- what ends the question --------------------------------------------------------------------------------------------------
refused(q{SET statement_timeout = '700ms'; SELECT * FROM outbox.test_server('silent', timeout => '60 s')}, qr/57014/, 'statement_timeout');
no_program_is_left('statement_timeout');
foreach my $how (qw(cancel terminate))
{
	my ($out, $error) = ('', '');
	my $asking = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SELECT * FROM outbox.test_server('silent', timeout => '60 s')" ], '>', \$out, '2>', \$error);
	my @asked;
	ok(wait_until(sub { @asked = programs() }, 30), "$how: while it asks");
	my $before = time;
	sql("SELECT pg_${how}_backend(pid) FROM pg_stat_activity WHERE query LIKE '%outbox.test_server%' AND pid <> pg_backend_pid()");
	$asking->finish;
	cmp_ok(time - $before, '<', 40, "$how: it ends");
	like($error, $how eq 'cancel' ? qr/canceling statement due to user request/ : qr/terminating connection/, "$how: and says so");
	ok(wait_until(sub { gone(@asked) }, 20), "$how: no program is left");
}

# --- twenty at once ----------------------------------------------------------------------------------------------------------
my @many = map {
	my $out = '';
	[ IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SELECT bool_and(ok), count(*) FROM outbox.test_server('good', 'some.stream', timeout => '60 s')" ], '>', \$out, '2>&1'), \$out ]
} 1 .. 20;
$_->[0]->finish foreach @many;
is(join('', map { ${ $_->[1] } } @many), "t|5\n" x 20, 'twenty at once');
no_program_is_left('twenty at once');

# --- create_route() ----------------------------------------------------------------------------------------------------------
sub made
{
	my ($name, $server, $more) = @_;
	my ($status, $out, $error) = $node->psql('postgres', "SET outbox.test_new_routes = on;\n" . ($more // '') . "SELECT outbox.create_route('$name', server => '$server')");
	is(sql("SELECT count(*) FROM outbox.route WHERE name = '$name'"), 1, "$name is made");
	return $error;
}
# A statement_timeout that is shorter than the look: the route is what was asked for. (Once of ten: the machine may be slow.)
my @hurried = grep { my ($status) = $node->psql('postgres', "SET statement_timeout = '600ms'; SELECT outbox.create_route('hurried $_', server => 'silent')"); $status == 0 } 1 .. 10;
cmp_ok(scalar @hurried, '>=', 1, 'statement_timeout does not take back a route because of a look at its server');
like(made('at_closed', 'closed'), qr/NOTICE:  server "closed" cannot be used as it is: could not connect.*\nDETAIL:  Error class destination, code CONNECT\. The route is made all the same.*\nHINT:  .*outbox\.test_server\('closed'\)/, 'and told that its server does not answer');
like(made('at_silent', 'silent'), qr/NOTICE:  server "silent" cannot be used as it is/, 'nor does one that is silent hold it up for long');
unlike(made('at_log', 'log'), qr/NOTICE/, 'one that is well is no news');
is(made('unseen', 'closed', "SET client_min_messages = warning;\n"), '', 'nobody is asked where nobody would see it');
is(made('untold', 'closed', "SET outbox.test_new_routes = off;\n"), '', 'or wants to');
no_server_crashed($node);
done_testing();

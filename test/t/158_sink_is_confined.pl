# matrix: F8 R13
# A sink process that an attacker has taken over cannot reach the data directory, nor the server's processes, nor its socket (nor another
# Unix-domain socket, where the destination names none), nor a program to start, nor the server's secrets in its environment. It works all
# the same: by name (which a resolver may want to ask a local service for), by address, with files.
use strict;
use warnings;

use IO::Socket::UNIX;
use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

$ENV{SOMEBODYS_SECRET} = 'secret';
my $node = new_node();
my $redis = Outbox::Redis->start;
my $kafka = Outbox::Kafka::available() ? Outbox::Kafka->start : undef;
$kafka->create_topic('confined', 1) if $kafka;
# The server's own socket, where its user may be let in as a superuser, and one that has no file.
my $abstract = "outbox-test-$$";
my $listens = IO::Socket::UNIX->new(Type => SOCK_STREAM(), Local => "\0$abstract", Listen => 8) or die $!;
my $own = $node->host . '/.s.PGSQL.' . $node->port;
# Another process of the server's user: 616 looks what becomes of one.
my $other = fork // die "fork: $!";
if ($other == 0) { setpgrp; exec 'sleep', '3600' or die "sleep: $!" }
END { kill 'KILL', $other if $other }
Outbox::Faults::put('escape', join("\n", $node->data_dir . '/PG_VERSION', $own, "\@$abstract", "process $other", ''));

# By a name, so that the resolver is needed, which reads files.
$node->safe_psql('postgres', "CREATE SERVER redis FOREIGN DATA WRAPPER outbox_redis OPTIONS (host 'localhost', port '$redis->{port}');
	SELECT outbox.create_route('redis', server => 'redis', topic => 'confined')");
kafka_route($node, $kafka, 'kafka', topic => q('confined')) if $kafka;
emit_counted($node, 's', ['k'], 1, 10);
ok(wait_idle($node), 'events go out');
is(by_key($redis->column('confined', 'payload'))->{k}, join(' ', 1 .. 10), 'and arrive');

my $confined = 0;
foreach my $pid (sink_pids($node))
{
	my $status = eval { slurp_file("/proc/$pid/status") } // next; # one that has ended since
	$confined++;
	like($status, qr/^NoNewPrivs:\s+1$/m, 'no new privileges');
	like($status, qr/^Cap$_:\s+0+$/m, "no capabilities: $_") foreach qw(Eff Prm Inh Amb);
}
cmp_ok($confined, '>=', $kafka ? 2 : 1, 'of each sink process');
my $result = slurp_file("$ENV{OUTBOX_FAULT_DIR}/escape.result");
my @tries = split /\n/, $result;
cmp_ok(scalar @tries, '>=', $kafka ? 2 : 1, 'each sink process tried to break out');
# Nobody else may read a sink process's environment.
is(scalar(grep { !/ environment clean$/ } @tries), 0, 'nothing of the server in its environment');
SKIP:
{
	skip "this kernel has neither seccomp nor landlock for a sink process ($tries[0])", 1 unless grep { /seccomp|landlock/ } @tries;
	foreach my $try (@tries)
	{
		my ($have, $did) = split /:/, $try, 2;
		diag("not confined in full on this kernel: $have") if $have ne 'no_new_privs seccomp landlock';
		like($did, qr/trace refused signal refused program refused self done/, "processes and programs: $did") if $have =~ /seccomp/;
		like($did, qr/ process:(?: (?!environment)\S+ refused)+ environment \w+ file:/, "another process: $did") if $have =~ /seccomp/;
		like($did, qr/ file:(?: \S+ refused)+ itself:/, "what stands of a file beside its bytes: $did") if $have =~ /seccomp/;
		like($did, qr/ itself:(?: \S+ done)+ environment clean$/, "what is its own: $did");
		like($did, qr/ socket refused socket refused datagrams refused pair done/, "Unix-domain sockets: $did") if $have =~ /seccomp/;
		like($did, qr/read refused list refused write refused move refused memory refused/, "files: $did") if $have =~ /landlock/;
	}
}
# How they are built, whatever flags the server was built with.
(my $lib = `pg_config --pkglibdir`) =~ s/\s+$//;
my @programs = glob "{$ENV{OUTBOX_STAGE}$lib,$lib}/outbox-sink-*";
cmp_ok(scalar @programs, '>=', 2, 'the programs are found');
foreach my $program (@programs, grep { -e } "$ENV{OUTBOX_STAGE}$lib/outbox.so", "$lib/outbox.so")
{
	my $elf = `readelf --wide --file-header --program-headers --dynamic --dyn-syms $program`;
	my ($name) = $program =~ m,([^/]+)$,;
	like($elf, qr/Type:\s+DYN/, "$name is position-independent");
	like($elf, qr/FLAGS_1.*\bPIE\b/, '... and a program, not a library that happens to start') if $name ne 'outbox.so';
	like($elf, qr/FLAGS_1.*\bNOW\b/, '... bound at its start');
	like($elf, qr/GNU_RELRO/, '... with read-only relocations');
	like($elf, qr/GNU_STACK.*\sRW\s/, '... has no executable stack');
	like($elf, qr/__stack_chk_fail/, '... notices that its stack is overrun');
  SKIP:
	{
		skip 'glibc before 2.40 has hardly any of its checks for clang', 1 if `readelf --string-dump=.comment $program` =~ /clang/;
		like($elf, qr/__mem(?:cpy|move|set)_chk|__snprintf_chk|__fprintf_chk/, '... or a buffer of known size');
	}
}
ok(!-e $node->data_dir . '/PG_VERSION.new', 'the data directory is as it was');
no_server_crashed($node);
done_testing();

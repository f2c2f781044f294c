# The consumers of docs/consumers.md, as their page has them, in four languages, of Kafka and of a Redis stream's group: each is
# killed (SIGKILL) a hundred times at random while events flow, and a ledger that no unique key protects has each event once.
# The server that they write to has not preloaded outbox. Then the same programs with a receive() that always says true: the
# ledger has events twice, so the test can fail.
#
# OUTBOX_INBOX_KILLS=10: so many kills; OUTBOX_INBOX_SECONDS=300: or as many as there is time for; OUTBOX_INBOX_ONLY="go-kafka
# java-redis": these.
# matrix: R95
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Redis;
use Outbox::Test;
use POSIX ();
use Test::More;
use Time::HiRes qw(time sleep);

Outbox::Kafka->skip_without;
my $installed = $ENV{OUTBOX_INBOX};
my %lacks = map { /^(\w+) (.*)$/ && $2 ne 'ok' ? ($1 => $2) : () } split /\n/, $ENV{OUTBOX_INBOX_SAID} // '';
my $kills = $ENV{OUTBOX_INBOX_KILLS} // 100;
my $limit = $ENV{OUTBOX_INBOX_SECONDS} // 2400;
my %only = map { $_ => 1 } split ' ', $ENV{OUTBOX_INBOX_ONLY} // '';
my $seed = $ENV{OUTBOX_INBOX_SEED} // time & 0xFFFF;
srand $seed;
note("OUTBOX_INBOX_SEED=$seed");

my %run = (
	'python-kafka' => ["$installed/python/venv/bin/python", "$installed/python/kafka_consumer.py"],
	'python-redis' => ["$installed/python/venv/bin/python", "$installed/python/redis_consumer.py"],
	'node-kafka' => [ 'node', "$installed/node/kafka_consumer.mjs" ],
	'node-redis' => [ 'node', "$installed/node/redis_consumer.mjs" ],
	'java-kafka' => [ 'java', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Xmx64m', '-cp', "$installed/java/classes:$installed/java/lib/*", 'KafkaInbox' ],
	'java-redis' => [ 'java', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Xmx64m', '-cp', "$installed/java/classes:$installed/java/lib/*", 'RedisInbox' ],
	'go-kafka' => [ "$installed/go/consumer", 'kafka' ],
	'go-redis' => [ "$installed/go/consumer", 'redis' ]);
# The number of a program is its events' remainder: n = 16 * i + number, and 8 more in the second part.
my @programs = sort keys %run;
my %number = map { $programs[$_] => $_ } 0 .. $#programs;
my @now = grep { !$lacks{ (split /-/)[0] } && (!%only || $only{$_}) } @programs;
note("$_: $lacks{$_}") foreach sort keys %lacks;
plan(skip_all => 'nothing of it is installed') if !@now;

my $redis = Outbox::Redis->start;
my $kafka = Outbox::Kafka->start('group.initial.rebalance.delay.ms=0');
my $node = new_node(name => 'producer', conf => "outbox.workers = 1\nmax_worker_processes = 20\n");
my $inbox = new_node(name => 'consumer', extension => 0, conf => "listen_addresses = '127.0.0.1'\nshared_preload_libraries = ''\nmax_connections = 100\n");
$inbox->safe_psql('postgres', 'CREATE ROLE app LOGIN');
foreach my $database ('remembers', 'forgets')
{
	$inbox->safe_psql('postgres', "CREATE DATABASE $database");
	# A commit takes a moment, as with a standby that it waits for: who dies meanwhile has committed and not acknowledged.
	$inbox->safe_psql($database, q{CREATE TABLE ledger (n bigint NOT NULL); GRANT INSERT ON ledger TO app;
		CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.01); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()});
}
$inbox->safe_psql('remembers', "SET client_min_messages = error; CREATE EXTENSION outbox; SELECT outbox.grant_receive('app', '{billing}')");
$inbox->safe_psql('forgets', 'CREATE SCHEMA outbox; GRANT USAGE ON SCHEMA outbox TO app;'
	  . q{CREATE FUNCTION outbox.receive(text, uuid) RETURNS boolean LANGUAGE sql RETURN true});

foreach my $program (@now)
{
	$kafka->create_topic($_, 3) foreach grep { $program =~ /kafka/ } $program, "plain-$program";
}
kafka_route($node, $kafka, 'kafka', aggregate_types => q('{kafka}'));
redis_route($node, $redis, 'redis', aggregate_types => q('{redis}'));

# One transaction for all that are to consume, ten of them in a second, until it is told to end.
sub emits { my ($topic, $add, @programs) = @_; return map { my ($kind) = /-(\w+)/; "PERFORM outbox.emit('$kind', i % 50, 'tick', jsonb_build_object('n', 16 * i + $add + $number{$_}), topic => '$topic$_');" } @programs }
$node->safe_psql('postgres', 'CREATE TABLE state (going boolean, n bigint); INSERT INTO state VALUES (true, 0)');
my $emitting = join "\n", emits('', 0, @now);
my $emitter = fork() // die "fork: $!";
if (!$emitter)
{
	open STDOUT, '>', 'emitter.log';
	exec $node->installed_command('psql'), '-XAtq', '-d', $node->connstr('postgres'), '-c',
	  "DO \$\$ DECLARE i bigint := 0; BEGIN WHILE (SELECT going FROM state) LOOP i := i + 1; $emitting UPDATE state SET n = i; COMMIT; PERFORM pg_sleep(0.1); END LOOP; END \$\$"
	  or POSIX::_exit(1);
}

# A consumer, as a process of its own.
sub start
{
	my ($program, $topic, $database) = @_;
	my $pid = fork() // die "fork: $!";
	return $pid if $pid;
	my $port = $inbox->port;
	@ENV{qw(DATABASE DATABASE_URL JDBC_URL)} = ("host=127.0.0.1 port=$port user=app dbname=$database",
		"postgres://app\@127.0.0.1:$port/$database?sslmode=disable", "jdbc:postgresql://127.0.0.1:$port/$database?user=app");
	@ENV{qw(BROKERS REDIS INSTANCE GROUP TOPIC SESSION_MS)} = ($kafka->{bootstrap}, "redis://127.0.0.1:$redis->{port}", 'one', "group of $topic", $topic, 6000);
	delete @ENV{qw(PGHOST PGPORT PGDATABASE PGUSER)};
	open STDIN, '<', '/dev/null';
	open STDOUT, '>>', "$topic.log";
	open STDERR, '>&', \*STDOUT;
	exec @{ $run{$program} } or POSIX::_exit(127);
}

my %counted; # by number: rows in the ledger
sub count { my ($database) = @_; %counted = map { split /\|/ } split /\n/, $inbox->safe_psql($database, 'SELECT n % 16, count(*) FROM ledger GROUP BY 1'); return }

# Runs the programs until each was killed so often, or `done` says that it is enough; each is killed after it has handled something.
sub run_killed
{
	my ($database, $topic, $add, $times, $done) = @_;
	my %state = map { $_ => { killed => 0, ended => 0 } } @now;
	my $until = time + $limit;
	while (grep { !$_->{done} } values %state)
	{
		count($database);
		foreach my $program (grep { !$state{$_}{done} } @now)
		{
			my $self = $state{$program};
			my $have = $counted{ $number{$program} + $add } // 0;
			if ($self->{pid} && waitpid($self->{pid}, POSIX::WNOHANG()) > 0) { delete $self->{pid}; $self->{done} = 1 if ++$self->{ended} > 20 + $times; }
			if ($self->{pid} && ($have > $self->{had} || time > $self->{began} + 60))
			{
				$self->{idle}++ if $have == $self->{had};
				sleep rand 0.15;
				kill KILL => $self->{pid};
				waitpid $self->{pid}, 0;
				delete $self->{pid};
				$self->{done} = 1 if ++$self->{killed} >= $times || $done->($program);
				note("$topic$program: killed $self->{killed} times, $have handled") if $self->{killed} % 10 == 0;
			}
			$self->{done} = 1 if time > $until;
			@$self{qw(pid had began)} = (start($program, "$topic$program", $database), $have, time) if !$self->{pid} && !$self->{done};
		}
		sleep 0.02;
	}
	kill KILL => $_ foreach grep { $_ } map { $_->{pid} } values %state;
	waitpid $_, 0 foreach grep { $_ } map { $_->{pid} } values %state;
	return \%state;
}

my $began = time;
my $state = run_killed('remembers', '', 0, $kills, sub { 0 });
my $seconds = int(time - $began);
$node->safe_psql('postgres', 'UPDATE state SET going = false');
waitpid $emitter, 0;
my $n = $node->safe_psql('postgres', 'SELECT n FROM state');
cmp_ok($n, '>', 100, "$n events of each were emitted, in $seconds s");
# What is left, in peace.
my @pids = map { start($_, $_, 'remembers') } @now;
foreach (1 .. 1500)
{
	count('remembers');
	last if !grep { ($counted{ $number{$_} } // 0) < $n } @now;
	sleep 0.2;
}
kill KILL => @pids;
waitpid $_, 0 foreach @pids;
my @table;
foreach my $program (@now)
{
	my ($rows, $distinct) = split /\|/, $inbox->safe_psql('remembers', "SELECT count(*), count(DISTINCT n) FROM ledger WHERE n % 16 = $number{$program}");
	my $self = $state->{$program};
	is("$rows $distinct", "$n $n", "$program: $n events handled once each");
	cmp_ok($self->{killed}, '>=', $ENV{OUTBOX_INBOX_SECONDS} ? 1 : $kills, "$program: killed $self->{killed} times");
	push @table, sprintf '%-13s killed %3d times, ended by itself %d, %6d events, handled %6d times', $program, $self->{killed}, $self->{ended}, $distinct, $rows;
}

# Without an inbox: the test can fail.
$node->safe_psql('postgres', "DO \$\$ BEGIN FOR i IN 1 .. 3000 LOOP " . join("\n", emits('plain-', 8, @now)) . ' END LOOP; END $$');
my $doubled = sub { my ($program) = @_; my $of = $number{$program} + 8; return $inbox->safe_psql('forgets', "SELECT count(*) > count(DISTINCT n) FROM ledger WHERE n % 16 = $of") eq 't' };
my $plain = run_killed('forgets', 'plain-', 8, 100, $doubled);
foreach my $program (@now)
{
	ok($doubled->($program), "$program: without it, an event is handled twice, after $plain->{$program}{killed} kills");
	push @table, sprintf '%-13s without: twice after %d kills', $program, $plain->{$program}{killed};
}
open my $out, '>', 'table.txt' or die "table.txt: $!";
print $out map { "  $_\n" } @table;
close $out;
note($_) foreach @table;

done_testing();

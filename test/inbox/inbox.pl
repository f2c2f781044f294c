# The consumers of docs/consumers.md, as their page has them, in four languages, of Kafka and of a Redis stream's group: each is
# killed (SIGKILL) a hundred times at random while events flow, and a ledger that no unique key protects has each event once. In one
# life of ten what handles an event fails, once: when the event is marked and its effect not written, in a process that may live on. And
# an answer of Redis is lost on its way, the database stays silent, and a topic is deleted and made anew while nobody reads it.
# The server that they write to has not preloaded outbox. Then the same programs with a receive() that always says true: the
# ledger has events twice, so the test can fail.
#
# A kill counts if the program had handled an event since it was started: it comes at random within 0.15 s of that, one in eight
# within a second. Of ten lives one more is ended at random before it may have handled anything; those are not counted.
#
# OUTBOX_INBOX_KILLS=10: so many kills; OUTBOX_INBOX_ONLY="go-kafka java-redis": these; OUTBOX_INBOX_SECONDS=600: who has not got
# so far by then has failed (2700); OUTBOX_INBOX_SEED=n.
# matrix: R95
use strict;
use warnings;

use List::Util qw(sum0);
use Outbox::Kafka;
use Outbox::Proxy;
use Outbox::Redis;
use Outbox::Test;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);

Outbox::Kafka->skip_without;
my $installed = $ENV{OUTBOX_INBOX};
my %lacks = map { /^(\w+) (.*)$/ && $2 ne 'ok' ? ($1 => $2) : () } split /\n/, $ENV{OUTBOX_INBOX_SAID} // '';
my $kills = $ENV{OUTBOX_INBOX_KILLS} // 100;
my $limit = $ENV{OUTBOX_INBOX_SECONDS} // 2700;
my %only = map { $_ => 1 } split ' ', $ENV{OUTBOX_INBOX_ONLY} // '';
my $seed = $ENV{OUTBOX_INBOX_SEED} // time & 0xFFFF;
srand $seed;
note("OUTBOX_INBOX_SEED=$seed");

my @java = ('java', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Xmx64m', '-cp', "$installed/java/lib/*");
my %run = (
	'python-kafka' => ["$installed/python/venv/bin/python", "$installed/python/kafka_consumer.py"],
	'python-redis' => ["$installed/python/venv/bin/python", "$installed/python/redis_consumer.py"],
	'node-kafka' => [ 'node', "$installed/node/kafka_consumer.mjs" ],
	'node-redis' => [ 'node', "$installed/node/redis_consumer.mjs" ],
	'java-kafka' => [ @java, 'KafkaInbox' ],
	'java-redis' => [ @java, 'RedisInbox' ],
	'go-kafka' => [ "$installed/go/consumer", 'kafka' ],
	'go-redis' => [ "$installed/go/consumer", 'redis' ]);
# The number of a program is its events' remainder: n = 16 * i + number, and 8 more in the second part.
my @programs = sort keys %run;
my %number = map { $programs[$_] => $_ } 0 .. $#programs;
my @now = grep { !$lacks{ (split /-/)[0] } && (!%only || $only{$_}) } @programs;
note("$_: $lacks{$_}") foreach sort keys %lacks;
plan(skip_all => 'nothing of it is installed') if !@now;

my $redis = Outbox::Redis->start;
# kafkajs has no static members: where a killed one was stays empty until its session is over.
my $kafka = Outbox::Kafka->start('group.min.session.timeout.ms=1000');
my $node = new_node(name => 'producer', conf => "outbox.workers = 1\nmax_worker_processes = 20\n");
my $inbox = new_node(name => 'consumer', extension => 0, conf => "listen_addresses = '127.0.0.1'\nshared_preload_libraries = ''\nmax_connections = 100\n");
$inbox->safe_psql('postgres', 'CREATE ROLE app LOGIN');
my %look; # a session in each database
foreach my $database ('remembers', 'forgets')
{
	$inbox->safe_psql('postgres', "CREATE DATABASE $database");
	# A commit takes a moment, as with a standby that it waits for: who dies meanwhile has committed and not acknowledged. What is
	# about to be committed counts as handled at once, in sequences.
	$inbox->safe_psql($database, q{CREATE TABLE ledger (n bigint NOT NULL); GRANT INSERT ON ledger TO app;
		CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM nextval(format('handled_%s', NEW.n % 16)); PERFORM pg_sleep(0.01); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow();}
		. join '', map { "CREATE SEQUENCE handled_$_; GRANT USAGE ON SEQUENCE handled_$_ TO app;" } 0 .. 15);
	$look{$database} = $inbox->background_psql($database);
	$look{$database}->set_query_timer_restart;
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

# Each begins with a tombstone; of Redis also with an entry that the consumer was given, and that was trimmed away since.
foreach my $program (@now)
{
	my ($kind) = $program =~ /-(\w+)/;
	foreach my $topic ($program, "plain-$program")
	{
		if ($kind eq 'redis')
		{
			$redis->command('XADD', $topic, '*', 'id', 'trimmed');
			$redis->command('XGROUP', 'CREATE', $topic, 'billing', '0');
			$redis->command('XREADGROUP', 'GROUP', 'billing', 'one', 'STREAMS', $topic, '>');
			$redis->command('XTRIM', $topic, 'MAXLEN', '0');
		}
		$node->safe_psql('postgres', "SELECT outbox.emit_tombstone('$kind', 'gone', 'tick', topic => '$topic')");
	}
}

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
	my ($program, $topic, $database, %at) = @_;
	my $pid = fork() // die "fork: $!";
	return $pid if $pid;
	my $port = $at{database} // $inbox->port;
	@ENV{qw(DATABASE DATABASE_URL JDBC_URL)} = ("host=127.0.0.1 port=$port user=app dbname=$database",
		"postgres://app\@127.0.0.1:$port/$database?sslmode=disable", "jdbc:postgresql://127.0.0.1:$port/$database?user=app");
	@ENV{qw(BROKERS REDIS INSTANCE GROUP TOPIC SESSION_MS FAILS)} = ($kafka->{bootstrap}, 'redis://127.0.0.1:' . ($at{redis} // $redis->{port}), 'one', "group of $topic", $topic, 2000, "$topic.fails");
	delete @ENV{qw(PGHOST PGPORT PGDATABASE PGUSER)};
	open STDIN, '<', '/dev/null';
	open STDOUT, '>>', "$topic.log";
	open STDERR, '>&', \*STDOUT;
	exec @{ $run{$program} } or POSIX::_exit(127);
}

# How many events each number has handled.
sub handled
{
	my ($database) = @_;
	my $query = 'SELECT ' . join(" || ' ' || ", map { "(SELECT last_value - (NOT is_called)::int FROM handled_$_)" } 0 .. 15);
	my @handled = split / /, $look{$database}->query_safe($query);
	return \@handled;
}

# Runs the programs until each was killed so often, or `done` says that it is enough; who is through goes on in peace, with
# `peace`. Returns by program: pid, killed, early, idle, ended (by itself).
sub run_killed
{
	my ($database, $topic, $add, $times, $done, $peace) = @_;
	my %state = map { $_ => { killed => 0, early => 0, idle => 0, ended => 0, lives => 0 } } @now;
	my $until = time + $limit;
	while (grep { !$_->{done} } values %state)
	{
		my $handled = handled($database);
		foreach my $program (@now)
		{
			my $self = $state{$program};
			my $have = $handled->[ $number{$program} + $add ];
			if ($self->{pid} && waitpid($self->{pid}, POSIX::WNOHANG()) > 0)
			{
				delete $self->{pid};
				$self->{done} = 1 if ++$self->{ended} > 20 + $times;
			}
			next if $self->{done} && !$peace;
			if ($self->{pid} && !$self->{done})
			{
				# What its predecessor was committing is there by then.
				$self->{had} //= $have if time > $self->{began} + 0.1;
				my $worked = defined $self->{had} && $have > $self->{had};
				if ($worked && !defined $self->{end_at}) { $self->{end_at} = time + rand(rand() < 0.125 ? 1 : 0.15) }
				elsif (!defined $self->{end_at} && time > $self->{began} + 120) { $self->{end_at} = 0; $self->{idle}++ }
				if (defined $self->{end_at} && time >= $self->{end_at})
				{
					kill KILL => $self->{pid};
					waitpid $self->{pid}, 0;
					delete $self->{pid};
					$self->{ $worked ? 'killed' : 'early' }++;
					note("$topic$program: killed $self->{killed} times, $have handled") if $worked && $self->{killed} % 10 == 0;
					$self->{done} = 1 if $self->{killed} >= $times || $done->($program);
				}
			}
			$self->{done} = 1 if time > $until;
			if (!$self->{pid} && (!$self->{done} || $peace))
			{
				append_to_file("$topic$program.fails", '') if $self->{lives}++ % 10 == 1;
				@$self{qw(pid had began end_at)} = (start($program, "$topic$program", $database), undef, time, rand() < 0.1 ? time + rand 1 : undef);
			}
		}
		sleep 0.03;
	}
	return \%state;
}

# Java keeps what it has loaded, so that a life begins sooner; that needs one that ends in good order.
my @java_programs = grep { /^java/ } @now;
my %first;
my $at_first = handled('remembers');
foreach my $program (@java_programs)
{
	local $run{$program} = [ 'java', "-XX:ArchiveClassesAtExit=$program.jsa", @{ $run{$program} }[ 1 .. $#{ $run{$program} } ] ];
	$first{$program} = start($program, $program, 'remembers');
}
foreach my $program (@java_programs)
{
	ok(wait_until(sub { handled('remembers')->[ $number{$program} ] > $at_first->[ $number{$program} ] }, 120), "$program: a first life");
	kill TERM => $first{$program};
	waitpid $first{$program}, 0;
	splice @{ $run{$program} }, 1, 0, "-XX:SharedArchiveFile=$program.jsa" if -s "$program.jsa";
}

my $began = time;
my $state = run_killed('remembers', '', 0, $kills, sub { 0 }, 1);
my $seconds = int(time - $began);
$node->safe_psql('postgres', 'UPDATE state SET going = false');
waitpid $emitter, 0;
my $n = $node->safe_psql('postgres', 'SELECT n FROM state');
cmp_ok($n, '>', $kills, "$n events of each were emitted, in $seconds s");
# What is left, in peace.
ok(wait_until(sub
{
	foreach my $program (@now)
	{
		my $self = $state->{$program};
		$self->{pid} = start($program, $program, 'remembers') if waitpid($self->{pid}, POSIX::WNOHANG()) > 0;
	}
	my $handled = handled('remembers');
	return !grep { $handled->[ $number{$_} ] < $n } @now;
}, 600), 'what is left is handled in peace');
my @pids = map { $_->{pid} } values %$state;
kill KILL => @pids;
waitpid $_, 0 foreach @pids;
wait_for_value($inbox, q(SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'), 0);
delete($look{remembers})->quit; # nobody asks it any more, and its timer goes on
my @table;
foreach my $program (@now)
{
	my ($rows, $distinct) = split /\|/, $inbox->safe_psql('remembers', "SELECT count(*), count(DISTINCT n) FROM ledger WHERE n % 16 = $number{$program}");
	my $self = $state->{$program};
	is("$rows $distinct", "$n $n", "$program: $n events handled once each");
	cmp_ok($self->{killed}, '>=', $kills, "$program: killed $self->{killed} times");
	ok($self->{lives} > 1 && !-e "$program.fails", 'and events failed while they were handled');
	push @table, sprintf '%-13s killed %3d times, and %2d times before it handled anything; ended by itself %d times; %6d events, handled %6d times', $program,
	  @$self{qw(killed early ended)}, $distinct, $rows;
}

# An answer of Redis with an event in it never arrives: first the connection is closed, then it is one that stays silent. Who asks
# again for what is new, without having begun anew, passes over that event.
my $proxy = Outbox::Proxy->new;
my $proxied = $proxy->redis($redis);
$proxy->tell('redis', 'pass'); # it is there by then
foreach my $program (grep { /redis/ } @now)
{
	my ($topic, @emitted) = ("lost-$program");
	my $emit = sub
	{
		push @emitted, 16 * (1_000_000 + @emitted) + $number{$program};
		return $node->safe_psql('postgres', "SELECT outbox.emit('redis', 'one', 'tick', jsonb_build_object('n', $emitted[-1]), topic => '$topic')");
	};
	my $all = sub { return $inbox->safe_psql('remembers', "SELECT n FROM ledger WHERE n >= 16000000 AND n % 16 = $number{$program} ORDER BY ctid") eq join "\n", @emitted };
	foreach my $how ('is closed', 'stays silent')
	{
		my $pid = start($program, $topic, 'remembers', redis => $proxied);
		$emit->();
		ok(wait_until($all, 120), "$program: an event arrives");
		$proxy->tell('redis', 'lose payload');
		$emit->();
		ok(wait_until(sub { $redis->command('XPENDING', $topic, 'billing') !~ /^0/ }, 60), 'the next one is in an answer that is lost');
		$proxy->tell('redis', 'pass');
		$redis->command('CLIENT', 'KILL', 'TYPE', 'normal') if $how eq 'is closed';
		$emit->();
		ok(wait_until(sub { waitpid($pid, POSIX::WNOHANG()) > 0 }, 60), "it ends where the connection $how") or kill KILL => $pid;
		$pid = start($program, $topic, 'remembers', redis => $proxied);
		ok(wait_until($all, 120), 'and goes on with what it was given before');
		kill KILL => $pid;
		waitpid $pid, 0;
	}
}

# The database takes what it is sent and answers nothing any more, and nobody closes a connection: each of them ends by itself, and
# goes on when it is started again.
my $to_database = Outbox::Proxy::free_port();
$proxy->start('database', $to_database, $inbox->port);
$proxy->tell('database', 'pass');
my $of_topic = sub
{
	my ($program, $topic, $first, $last) = @_;
	my ($kind) = $program =~ /-(\w+)/;
	return $node->safe_psql('postgres', "SELECT count(outbox.emit('$kind', 'one', 'tick', jsonb_build_object('n', 16 * i + $number{$program}), topic => '$topic')) FROM generate_series($first, $last) i");
};
my $once = sub
{
	my ($program, $first, $last) = @_;
	return $inbox->safe_psql('remembers', "SELECT count(*) || ' ' || count(DISTINCT n) FROM ledger WHERE n % 16 = $number{$program} AND n / 16 BETWEEN $first AND $last") eq join ' ', ($last - $first + 1) x 2;
};
my %silent;
foreach my $program (@now)
{
	$kafka->create_topic("silent-$program", 1) if $program =~ /kafka/;
	$silent{$program} = start($program, "silent-$program", 'remembers', database => $to_database);
	$of_topic->($program, "silent-$program", 2_000_000, 2_000_000);
}
foreach my $program (@now) { ok(wait_until(sub { $once->($program, 2_000_000, 2_000_000) }, 120), "$program: an event is handled") }
$proxy->tell('database', 'forget');
$of_topic->($_, "silent-$_", 2_000_001, 2_000_020) foreach @now;
foreach my $program (@now)
{
	ok(wait_until(sub { waitpid($silent{$program}, POSIX::WNOHANG()) > 0 }, 240), "$program: it ends where the database stays silent") or kill KILL => $silent{$program};
}
$proxy->tell('database', 'pass');
$silent{$_} = start($_, "silent-$_", 'remembers', database => $to_database) foreach @now;
foreach my $program (@now)
{
	ok(wait_until(sub { $once->($program, 2_000_000, 2_000_020) }, 120), "$program: and goes on when it is started again");
	kill KILL => $silent{$program};
	waitpid $silent{$program}, 0;
}
$proxy->stop;

# Nobody reads a topic while it is deleted and made anew: its group has forgotten how far it was, and takes the new one from its
# beginning, which has more in it than the old one had. (Who reads on meanwhile may begin in the middle.)
foreach my $program (grep { /kafka/ } @now)
{
	my $topic = "anew-$program";
	$kafka->create_topic($topic, 1);
	my $pid = start($program, $topic, 'remembers');
	$of_topic->($program, $topic, 3_000_000, 3_000_199);
	ok(wait_until(sub { $once->($program, 3_000_000, 3_000_199) }, 120), "$program: a topic is read");
	sleep 3; # its offset is committed by then; where it is not, this finds less
	kill KILL => $pid;
	waitpid $pid, 0;
	$kafka->delete_topic($topic);
	$kafka->create_topic($topic, 1);
	$of_topic->($program, $topic, 3_000_200, 3_000_799);
	ok(wait_until(sub { $kafka->count($topic) == 600 }, 120), 'deleted and made anew it has more than before');
	$pid = start($program, $topic, 'remembers');
	ok(wait_until(sub { $once->($program, 3_000_000, 3_000_799) }, 120), 'and who is started then handles all of it');
	kill KILL => $pid;
	waitpid $pid, 0;
}

# Without an inbox: the test can fail.
$node->safe_psql('postgres', "DO \$\$ BEGIN FOR i IN 1 .. 3000 LOOP " . join("\n", emits('plain-', 8, @now)) . ' END LOOP; END $$');
my $doubled = sub { my ($program) = @_; my $of = $number{$program} + 8; return $inbox->safe_psql('forgets', "SELECT count(*) > count(DISTINCT n) FROM ledger WHERE n % 16 = $of") eq 't' };
my $plain = run_killed('forgets', 'plain-', 8, 100, $doubled, 0);
kill KILL => $_ foreach grep { $_ } map { $_->{pid} } values %$plain;
waitpid $_, 0 foreach grep { $_ } map { $_->{pid} } values %$plain;
foreach my $program (@now)
{
	ok($doubled->($program), "$program: without it, an event is handled twice, after $plain->{$program}{killed} kills");
	push @table, sprintf '%-13s without: twice after %d kills', $program, $plain->{$program}{killed};
}
push @table, sprintf '%d kills in %d s', sum0(map { $_->{killed} } values %$state), $seconds;
open my $out, '>', 'table.txt' or die "table.txt: $!";
print $out map { "  $_\n" } @table;
close $out;
note($_) foreach @table;
$_->quit foreach values %look;

done_testing();

# The first hour of an operator whose Kafka is down, played in a minute: docs/kafka-is-down.md. scripts/transcript writes the
# page, test/t/257_kafka_is_down.pl plays it again and compares the shape.
package Outbox::Outage;

use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use PostgreSQL::Test::Utils;

my ($node, $kafka, @page, $mark);

# What psql answers, as a person has it on the screen.
sub answer
{
	my ($sql, @more) = @_;
	my $out = '';
	IPC::Run::run([ 'psql', '-X', '-q', '-h', $node->host, '-p', $node->port, '-U', 'postgres', '-v', 'VERBOSITY=default', @more, '-d', 'shop', '-f', '-' ],
		'<', \$sql, '>&', \$out) or die "psql: $out";
	$out =~ s/^psql:<stdin>:\d+: //mg;
	$out =~ s/[ \t]+$//mg;
	$out =~ s/\n+\z/\n/;
	return $out;
}

sub says { push @page, "$_[0]\n"; return }

# A statement and what it answers; %how: x => 1: a field a line.
sub asks
{
	my ($sql, %how) = @_;
	my @form = $how{x} ? ('-x', '-P', 'format=wrapped', '-P', 'columns=118') : ('-P', 'footer=off');
	my $out = answer("$sql\n", @form);
	push @page, "```sql\n$sql\n```\n", "```text\n$out```\n";
	return $out;
}

# Lines of the server's log since the last look, without what is the machine's; of each incident the whole of it.
sub server_log
{
	my ($wanted, $least) = @_;
	my $lines = sub
	{
		my $keep = 0;
		return grep {
			$keep = /(?:WARNING|LOG):  outbox: .*$wanted/ if /(?:WARNING|LOG|ERROR|FATAL):  /;
			$keep
		} map { s/^(\S+ \S+) UTC \[\d+\] (outbox relay) /$1 /r } split /\n/, substr(slurp_file($node->logfile), $mark);
	};
	wait_until(sub { $lines->() >= $least }, 60) or die "the server's log has no line of $wanted";
	my $text = join '', map { "$_\n" } $lines->();
	$mark = length slurp_file($node->logfile);
	push @page, "```text\n$text```\n";
	return $text;
}

sub holds { my ($query, $wanted) = @_; wait_for_value_of($query, $wanted) or die "$query never was $wanted"; return }
sub wait_for_value_of { my ($query, $wanted) = @_; return wait_until(sub { (eval { $node->safe_psql('shop', $query) } // '') eq $wanted }, 90) }
sub value { return $node->safe_psql('shop', $_[0]) }

# play(): the page. The operator has psql and the server's log, and nothing else.
sub play
{
	@page = ();
	$node = new_node(name => 'shop', extension => 0, conf => "log_min_messages = warning\nfsync = on\n");
	$kafka = Outbox::Kafka->start;
	my $redis = Outbox::Redis->start;
	$kafka->create_topic('outbox.event.order', 3);
	$node->safe_psql('postgres', 'CREATE DATABASE shop');
	$node->safe_psql('shop', qq{
		CREATE EXTENSION outbox;
		CREATE TABLE orders (id bigint PRIMARY KEY, total numeric(10, 2));
		CREATE SERVER events FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{bootstrap}');
		CREATE SERVER cache FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
		SELECT outbox.create_route('orders', server => 'events'), outbox.create_route('cache', server => 'cache');
		INSERT INTO orders SELECT i, i FROM generate_series(1, 500) i;
		SELECT count(outbox.emit('order', i, 'order.created', '{}')) FROM generate_series(1, 500) i;});
	holds(q{SELECT outbox.wait_until_idle('30 s')}, 't');
	$mark = length slurp_file($node->logfile);

	says(<<'END');
# Kafka is down: the first hour

What an operator sees, and types, when the broker of a route goes away: every question has its answer on the screen. Written by
`scripts/transcript`, which stops a real Kafka under a server with two routes, `orders` to Kafka and `cache` to Redis, and plays
in a minute what takes an hour; a test plays it again and compares the shape. What to do about other kinds of trouble: [When
things go wrong](when-things-go-wrong.md). Alerts that call you: [Monitor](monitoring.md#alerts).

## Something is wrong. What?

The server's log has one line, when it begins:
END
	chomp $page[-1];
	$kafka->stop;
	my $id = value(q{WITH o AS (INSERT INTO orders VALUES (501, 129.97)) SELECT outbox.emit('order', 501, 'order.created', '{"total": 129.97}')});
	value(q{WITH o AS (INSERT INTO orders SELECT i, i FROM generate_series(502, 3000) i) SELECT count(outbox.emit('order', i, 'order.created', '{}')) FROM generate_series(502, 3000) i});
	server_log('destination "events" is in trouble', 3);
	holds(q{SELECT count(*) FROM outbox.destination WHERE server = 'events' AND state = 'open' AND error_class = 'destination'}, '1');
	holds(q{SELECT count(*) FROM outbox.lag WHERE route = 'orders' AND pending = 2500 AND error_class = 'destination'}, '1');
	holds(q{SELECT count(*) FROM outbox.lag WHERE route = 'cache' AND pending = 0}, '1');
	my $left_alone = q{SELECT count(*) FROM outbox.destination WHERE server = 'events' AND state = 'open' AND next_try > clock_timestamp() + interval '0.5 s'};
	holds($left_alone, '1');
	says('And this says it at any time, with what to do:');
	asks(q{SELECT "check", status, detail, hint FROM outbox.doctor() WHERE status <> 'ok';}, x => 1);

	says("## Since when? Which destination, and is it the broker's fault or ours?");
	holds($left_alone, '1');
	asks('SELECT server, state, since, next_try, error_class, error_code, error_message FROM outbox.destination ORDER BY server;', x => 1);
	says("`closed` is the state of a destination that takes events; `open`: nothing is sent until `next_try`; `half-open`, for a moment then: a few\n"
		  . "events are sent to see whether it is back.");
	says("The class says whose fault it is: `destination` is the broker's, it comes back by itself; `config` would be ours (a password, a\n"
		  . "certificate), and wait for a person. To try it now, from this server, as a worker would:");
	asks(q{SELECT "check", ok, detail, hint FROM outbox.test_server('events', 'outbox.event.order');}, x => 1);

	says('## Which routes? How much waits?');
	asks('SELECT route, lane, state, pending, delay, parked, error_class FROM outbox.lag ORDER BY route;');
	says('`orders` waits; `cache` has nothing to do with it and flows.');

	says('## Is anything lost?');
	says("No: what waits is in the log, committed and safe as the orders are, and nothing was given up for it. One order's event, for a\ncustomer who asks:");
	asks("SELECT route, state, error_code, next_try, delivered_at FROM outbox.status('$id') ORDER BY route;");
	asks('SELECT count(*) AS dead_letters FROM outbox.dead_letter;');

	says('## Does the shop still sell?');
	says("Yes: `emit()` is one insert, and waits for no broker.");
	asks("BEGIN;\nINSERT INTO orders VALUES (3001, 9.99);\nSELECT outbox.emit('order', 3001, 'order.created', '{\"total\": 9.99}') IS NOT NULL AS emitted;\nCOMMIT;");

	says('## How long can it last?');
	says("As long as the disk has room: days are not dropped while a route has still to deliver them, whatever `outbox.retention` says.");
	asks(q{SELECT day, state, rows, pg_size_pretty(bytes) AS size, undelivered, oldest_undelivered, held_by FROM outbox.day WHERE rows > 0;}, x => 1);
	asks(q{SELECT status, detail FROM outbox.doctor() WHERE "check" IN ('disk', 'log') ORDER BY "check";}, x => 1);

	says('## What do I do?');
	says("Nothing here: mend the broker. It is tried again by itself (`next_try`), and nothing that waits is charged for it. If whoever mends\n"
		  . "it wants to be left alone meanwhile, no try at all is made of a destination that is paused:");
	asks(q{SELECT outbox.pause(server => 'events', reason => 'kafka gets a new disk, ticket 4711');});
	holds(q{SELECT count(*) FROM outbox.destination WHERE server = 'events' AND state = 'paused'}, '1');
	asks('SELECT server, state, paused_by, pause_reason FROM outbox.destination ORDER BY server;');
	$node->safe_psql('shop', q{SELECT count(*) FROM generate_series(1, 1000) n, LATERAL outbox.emit_many((SELECT jsonb_agg(jsonb_build_object(
		'aggregate_type', 'order', 'aggregate_id', n || '/' || i, 'event_type', 'order.paid', 'payload', '{}'::jsonb)) FROM generate_series(1, 1000) i))});
	$kafka->restart;
	asks(q{SELECT outbox.resume(server => 'events');});

	says("## It is back. How long will the backlog take?");
	says('Of every route that is behind, how far it has come, how fast, and how long the rest takes at that pace:');
	my $drains = q{SELECT route, done, total, rate, time_left FROM outbox.pg_stat_progress_outbox WHERE command = 'drain'};
	holds("SELECT count(*) FROM ($drains) d WHERE route = 'orders' AND done > 0 AND done < total AND total > 800000 AND rate > 0", '1');
	asks("$drains;");

	says('## Is it over?');
	says(<<'END');
When nothing is pending and nothing parked. (A script waits for that by `outbox.wait_until_idle('5 min')`, as the owner of the extension or a role
that was granted `EXECUTE` on it: `grant_operate()` grants the right to look and act, not to wait.)
END
	holds(q{SELECT outbox.wait_until_idle('30 s')}, 't');
	asks('SELECT route, lane, state, pending, delay, parked, error_class FROM outbox.lag ORDER BY route;');
	holds(q{SELECT state FROM outbox.destination WHERE server = 'events'}, 'closed');
	asks('SELECT server, state, error_class FROM outbox.destination ORDER BY server;');
	asks("SELECT route, state, topic, delivered_at, places FROM outbox.status('$id') ORDER BY route;");
	says("The server's log has one line for the end, with how long it took, and nothing in between:");
	server_log('destination "events" works again', 1);
	asks(q{SELECT outbox.doctor_ok();});
	my $there = $kafka->count('outbox.event.order');
	my $emitted = value(q{SELECT count(*) FROM outbox_internal.log});
	says("Every event is in Kafka ($emitted were emitted, the topic has $there): none is lost, and what a crash of the broker may have repeated has\n"
		  . "the same id, so that [consumers drop it](consumers.md).");

	says('## Who did what?');
	asks("SELECT who, action, reason FROM outbox.audit WHERE action IN ('pause', 'resume') ORDER BY at;");
	return { page => join("\n", @page), emitted => $emitted, there => $there, log => slurp_file($node->logfile) };
}

# What stays the same from play to play: all text, all statements, of answers the names of columns and fields, of log lines the words.
sub shape
{
	my ($page) = @_;
	my @shape;
	foreach my $part (split /^(?=```)/m, $page)
	{
		if ($part !~ /^```text\n(.*)\z/s) { push @shape, map { s/'[0-9a-f-]{36}'/'ID'/r =~ s/\d+/N/gr } split /\n/, $part; next }
		my $answer = $1;
		my %fields;
		if ($answer =~ /(?:WARNING|LOG):  outbox: /) { my %said; push @shape, grep { !$said{$_}++ } map { /((?:WARNING|LOG|DETAIL|HINT):  (?:outbox: destination "\w+" \w+ \w+)?)/ ? $1 : () } split /\n/, $answer }
		elsif ($answer =~ /^-\[ RECORD/m) { $fields{ $1 // '' }++ while $answer =~ /^(\w+) +\|/mg; push @shape, join ' ', sort keys %fields }
		else { push @shape, join ' ', split / *\| */, ($answer =~ /^\s*(.*?)\s*$/m)[0] }
	}
	return [ grep { $_ ne '' } @shape ];
}

1;

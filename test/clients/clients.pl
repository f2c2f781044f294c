# Ten stacks that people use, each as its user writes it, against one server: what they emit in the transaction of their own
# change is delivered once, with its bytes, key and headers, if that commits, and not at all if it does not; keys of each type,
# text, bytes, tombstones, NULLs, triggers; errors have their SQLSTATE and hint; and the traps that docs/clients.md tells of are
# there. Each program (python, node, go, java, ruby beside this file; parts of them are the page's code) goes through the same
# cases and says what it did; what is right is said here, once.
use strict;
use warnings;

use IPC::Run ();
use JSON::PP ();
use Outbox::Test;
use Test::More;

my $top = $ENV{OUTBOX_TOP};
my $installed = $ENV{OUTBOX_CLIENTS};
my %lacks = map { /^(\w+) (.*)$/ && $2 ne 'ok' ? ($1 => $2) : () } split /\n/, $ENV{OUTBOX_CLIENTS_SAID} // '';

my @stacks = (
	{ name => 'psycopg', language => 'python', run => ["$installed/python/venv/bin/python", "$installed/python/psycopg_client.py"] },
	{ name => 'SQLAlchemy', language => 'python', run => ["$installed/python/venv/bin/python", "$installed/python/sqlalchemy_client.py"] },
	{ name => 'Django', language => 'python', run => ["$installed/python/venv/bin/python", "$installed/python/django_client.py"] },
	{ name => 'node-postgres', language => 'node', run => [ 'node', "$installed/node/out/pg_client.mjs" ] },
	{ name => 'Prisma', language => 'node', run => [ 'node', "$installed/node/out/prisma_client.mjs" ] },
	{ name => 'TypeORM', language => 'node', run => [ 'node', "$installed/node/out/typeorm_client.mjs" ] },
	{ name => 'pgx', language => 'go', run => ["$installed/go/client"] },
	{ name => 'pgjdbc', language => 'java', run => [ 'java', '-cp', "$installed/java/classes:$installed/java/lib/*", 'PgjdbcClient' ] },
	{ name => 'Hibernate', language => 'java', run => [ 'java', '-cp', "$installed/java/classes:$installed/java/lib/*", 'HibernateClient' ] },
	{ name => 'ActiveRecord', language => 'ruby', run => [ 'ruby', "$top/test/clients/ruby/activerecord_client.rb" ] });

my $node = new_node(extension => 0, conf => "listen_addresses = '127.0.0.1'\noutbox.workers = 1\nmax_worker_processes = 20\noutbox.lone_emit = warn\n");
my $redis = Outbox::Redis->start;
$node->safe_psql('postgres', 'CREATE ROLE app LOGIN');

my $json = JSON::PP->new->canonical;
my $object = { n => 1, t => "\x{fc} \"q\" \\" };
my %headers = ('h:tenant' => 'acme', 'h:who' => "J\xc3\xbcrgen");
my $uuid = '0190b6f0-0000-7000-8000-000000000001';

# What is to arrive of each type of event: key, payload (a reference: JSON that is like this; else these bytes), other fields;
# once, if `times` says nothing else.
my %arrives = (
	'order.placed' => { payload => { customer => "Zo\x{eb} \"Z\" O'Neil" } },
	'entity' => { key => '7', payload => $object, %headers },
	'savepoint.outer' => { key => '1', payload => $object },
	'key.number' => { key => '9007199254740993', payload => $object },
	'key.uuid' => { key => $uuid, payload => $object },
	'key.text' => { key => "a key \"\xc3\xbc\"", payload => $object },
	'key.null' => { payload => $object },
	'as.sent' => { key => '1', payload => '{"b" :  1, "a":2}' },
	'text' => { key => '1', payload => "Gr\xc3\xb6\xc3\x9fe \"42\"\nsecond line\\", content_type => 'text/plain' },
	'bytes' => { key => '1', payload => "\x00\xff\r\n'\\", content_type => 'application/octet-stream' },
	'tombstone' => { key => '1' },
	'nulls' => { key => '1', payload => $object },
	'all' => { key => '1', payload => $object, %headers },
	'goes.on' => { key => '1', payload => $object });
my %counted = (many => 3, repeated => 7); # keys 1 to n, payload {"n": n}

# What else one of them emits, and what it says; a trap that is not there any more is news for the page, too.
my %traps = (
	psycopg => { arrives => { 'json.string' => { key => '1', payload => { n => 1 } } } },
	SQLAlchemy => {
		arrives => { merged => { payload => $object }, expired => { payload => $object } },
		says => { trap_expired => sub { $_[0]{read} eq 'ObjectDeletedError' } } },
	Django => { refused => ['trap_saved_twice'] },
	'node-postgres' => { arrives => { 'empty.array' => { key => '1', payload => {} }, array => { key => '1', payload => [ 1, 2 ] } } },
	pgjdbc => { arrives => { 'null.string' => { key => '1', payload => $object } } },
	Hibernate => {
		arrives => { string => { payload => $object } }, refused => ['trap_dirty'],
		says => { trap_merge => sub { $_[0]{error} eq 'OptimisticLockException' }, trap_object => sub { $_[0]{error} eq 'ClassCastException' } } },
	ActiveRecord => { arrives => { cached => { key => '1', payload => {} }, 'not.cached' => { key => '1', payload => {}, times => 2 } } });

my @refusals = qw(refused_null refused_twice refused_update);
my @asked = split ' ', $ENV{OUTBOX_CLIENTS_ONLY} // '';
my %table;

# What psql is told, for what each client is to be told.
sub what_psql_is_told
{
	my ($database) = @_;
	my %sql = (
		refused_null => q{SELECT outbox.emit('order', 1, 'refused', NULL)},
		refused_twice => q{SELECT outbox.emit('order', 1, 'refused', '"{\"n\": 1}"')},
		refused_update => q{UPDATE outbox.event SET event_type = 'x'});
	my %told;
	foreach my $case (sort keys %sql)
	{
		my (undef, undef, $said) = $node->psql($database, "SET ROLE app; SET client_min_messages = error; \\set VERBOSITY verbose\n$sql{$case}");
		my ($state, $message) = $said =~ /ERROR:  (\w{5}): (.*)/;
		my ($hint) = $said =~ /^HINT:  (.*)$/m;
		$told{$case} = { sqlstate => $state, message => $message, hint => $hint };
	}
	return \%told;
}

sub fits
{
	my ($wanted, $entry) = @_;
	my %got = %$entry;
	my %want = (%$wanted, type => $got{type}, aggregate_type => 'order');
	my @wrong;
	my ($payload, $body) = (delete $want{payload}, delete $got{payload});
	delete $want{times};
	delete @got{qw(_entry id created_at)};
	push @wrong, 'fields ' . $json->encode(\%got) if $json->encode(\%got) ne $json->encode(\%want);
	if (ref $payload)
	{
		my $read = eval { $json->encode($json->utf8->decode($body // '')) } // 'no JSON';
		push @wrong, 'payload ' . ($body // 'absent') if $read ne $json->encode($payload);
	}
	elsif (($payload // 'absent') ne ($body // 'absent')) { push @wrong, 'payload ' . ($body // 'absent') }
	return @wrong;
}

sub run_stack
{
	my ($stack) = @_;
	my $name = $stack->{name};
	my $database = 'clients_' . lc $name =~ s/\W/_/gr;
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, PostgreSQL::Test::Utils::slurp_file("$top/test/clients/schema.sql") =~ s/\A/CREATE EXTENSION outbox;\n/r);
	$redis->command('DEL', 'elsewhere');
	$node->safe_psql($database, "CREATE SERVER events FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}');
		SELECT outbox.create_route('events', server => 'events', topic => '$database')");

	my %environment = (PGHOST => '127.0.0.1', PGPORT => $node->port, PGUSER => 'app', PGDATABASE => $database, LC_ALL => 'C.UTF-8',
		DATABASE_URL => 'postgresql://app@127.0.0.1:' . $node->port . "/$database", JDBC_URL => 'jdbc:postgresql://127.0.0.1:' . $node->port . "/$database");
	my ($out, $err) = ('', '');
	{
		local @ENV{ keys %environment } = values %environment;
		IPC::Run::run($stack->{run}, '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(300));
	}
	my %said = map { my $line = eval { $json->utf8->decode($_) }; $line ? ($line->{case} => $line) : () } split /\n/, $out;
	foreach my $case (sort keys %said) { fail("$name: $case: $said{$case}{failed}") if defined $said{$case}{failed} }
	is(scalar(grep { !defined $said{$_} } qw(placed commit_fails rolled_back entity entity_rolled_back savepoint key_number key_uuid key_text key_null
		as_sent text bytes tombstone nulls all many repeated row sees_own goes_on), @refusals), 0, "$name: every case was run") or diag("$out\n$err");

	is($node->safe_psql($database, "SELECT outbox.wait_until_idle('60s')"), 't', "$name: everything is delivered");
	my (%arrived, %ids);
	foreach my $entry (@{ $redis->entries($database) }, @{ $redis->entries('elsewhere') })
	{
		push @{ $arrived{ $entry->{type} } }, $entry;
		$ids{ $entry->{id} }++;
	}
	is($node->safe_psql($database, 'SELECT count(*), count(DISTINCT id) FROM outbox_internal.log'), join('|', (scalar map { @$_ } values %arrived), scalar keys %ids),
		"$name: what is in the log arrived, each once");

	my %wanted = (%arrives, %{ $traps{$name}{arrives} // {} });
	$wanted{'order.placed'} = { %{ $wanted{'order.placed'} }, key => '' . ($said{placed}{order} // 'of no order') };
	my $arrives = sub
	{
		foreach my $type (@_)
		{
			my $entries = delete $arrived{$type} // [];
			my $times = $wanted{$type}{times} // 1;
			my @wrong = (@$entries == $times ? () : 'arrived ' . @$entries . ' times', map { fits($wanted{$type}, $_) } @$entries);
			is("@wrong", '', "$name: $type");
		}
	};
	my $same_id = sub { ok($ids{ $said{$_}{id} // '' }, "$name: $_: the id that the client has is the event's") foreach @_ };
	column($name, 'commit', sub {
		$arrives->('order.placed', 'goes.on');
		$same_id->('placed', 'goes_on');
		is($node->safe_psql($database, 'SELECT count(*) FROM orders'), 1, "$name: one order is there");
	});
	column($name, 'view', sub { $arrives->('entity'); $same_id->('entity') });
	column($name, 'keys', sub { $arrives->(grep { /^key/ } sort keys %arrives) });
	column($name, 'bodies', sub { $arrives->(qw(as.sent text bytes tombstone)); $same_id->(qw(as_sent text bytes tombstone)) });
	column($name, 'arguments', sub { $arrives->(qw(nulls all)); $same_id->('all') });
	column($name, 'many', sub {
		foreach my $type (sort keys %counted)
		{
			my @got = map { ($_->{key} // 'none') . ' ' . ($_->{payload} =~ s/\s//gr) } @{ delete $arrived{$type} // [] };
			is_deeply(\@got, [ map { "$_ {\"n\":$_}" } 1 .. $counted{$type} ], "$name: $type");
		}
	});
	column($name, 'triggers', sub {
		my @rows = map { delete $arrived{"shipment.$_"} // [] } qw(created updated deleted);
		is(join(' ', map { scalar @$_ } @rows), '1 1 1', "$name: row changes by the trigger");
	});
	column($name, 'tests', sub {
		is_deeply($said{sees_own}{counts}, [ 2, 0 ], "$name: a test in a transaction sees what was emitted, and nobody later");
	});
	my $told = what_psql_is_told($database);
	column($name, 'errors', sub {
		foreach my $case (@refusals)
		{
			is_deeply({ map { $_ => $said{$case}{$_} } qw(sqlstate message hint) }, $told->{$case}, "$name: $case, as psql is told");
		}
	});
	column($name, 'traps', sub {
		$arrives->(sort keys %{ $traps{$name}{arrives} // {} });
		foreach my $case (@{ $traps{$name}{refused} // [] })
		{
			is_deeply({ map { $_ => $said{$case}{$_} } qw(sqlstate message hint) }, $told->{refused_update}, "$name: $case");
		}
		my $says = $traps{$name}{says} // {};
		ok($says->{$_}->($said{$_} // {}), "$name: $_") foreach sort keys %$says;
	});
	column($name, 'rollback', sub {
		$arrives->('savepoint.outer');
		is_deeply([ sort keys %arrived ], [], "$name: nothing else arrived, nothing of what was rolled back");
	});
	$node->safe_psql('postgres', "DROP DATABASE $database WITH (FORCE)");
	return;
}

# column STACK NAME CODE: the tests of CODE are one column of the table.
sub column
{
	my ($name, $column, $code) = @_;
	my $before = failures();
	$code->();
	$table{$name}{$column} = failures() > $before ? 'FAILED' : 'ok';
	return;
}
sub failures { return scalar grep { !$_ } Test::More->builder->summary }

foreach my $stack (@stacks)
{
	my $name = $stack->{name};
	next if @asked && !grep { lc $_ eq lc $name } @asked;
	SKIP:
	{
		$table{$name} = { lacks => $lacks{ $stack->{language} } };
		skip("$name: $table{$name}{lacks}", 1) if defined $table{$name}{lacks};
		my ($began, $before) = (time, failures());
		run_stack($stack);
		@{ $table{$name} }{qw(seconds failures)} = (time - $began, failures() - $before);
	}
}
my @columns = qw(commit rollback view keys bodies arguments many triggers tests errors traps);
open my $out, '>', 'table.txt' or die "table.txt: $!";
printf $out "  %-14s" . ' %-9s' x @columns . " s\n", 'stack', @columns;
foreach my $name (map { $_->{name} } @stacks)
{
	my $row = $table{$name} or next;
	if (defined $row->{lacks}) { printf $out "  %-14s not run: %s\n", $name, $row->{lacks}; next }
	printf $out "  %-14s" . ' %-9s' x @columns . " %d%s\n", $name, (map { $row->{$_} // '-' } @columns), $row->{seconds}, $row->{failures} ? "  $row->{failures} FAILED" : '';
}
close $out or die "table.txt: $!";
no_server_crashed($node);
done_testing();

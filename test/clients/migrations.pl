# What migration tools make of a database that has the extension, run as a superuser, with an event undelivered: as they come,
# where they would harm they are refused; and with the setting that docs/clients.md gives, they see nothing of ours. The programs
# (migrations in python, node, java, ruby and php beside this file) ask the tools; what is right is said here.
use strict;
use warnings;

use IPC::Run ();
use JSON::PP ();
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{OUTBOX_TOP};
my $installed = $ENV{OUTBOX_CLIENTS};
my %lacks = map { /^(\w+) (.*)$/ && $2 ne 'ok' ? ($1 => $2) : () } split /\n/, $ENV{OUTBOX_CLIENTS_SAID} // '';
my $json = JSON::PP->new->canonical;
my $node = new_node(extension => 0, conf => "listen_addresses = '127.0.0.1'\noutbox.workers = 1\noutbox.enabled = off\n");
$node->safe_psql('postgres', 'CREATE ROLE app LOGIN');
my ($database, @table);

# A database with the application's tables, the extension, and one event that no worker takes.
sub fresh
{
	($database) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, slurp_file("$top/test/clients/schema.sql") =~ s/\A/CREATE EXTENSION outbox;\n/r);
	$node->safe_psql($database, q{CREATE SERVER events FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('events', server => 'events');
		SELECT outbox.emit('order', 1, 'order.placed', '{}')});
	# The tables of the next days come by themselves.
	ok(wait_until(sub { $node->safe_psql($database, q{SELECT count(*) FROM pg_class c WHERE c.relnamespace = 'outbox_internal'::regnamespace
		AND c.relname ~ ('^(log|progress|tick|outcome)_' || to_char(now() AT TIME ZONE 'UTC' + interval '3 days', 'YYYYMMDD') || '$')}) eq '4' }), "$database: days are there");
	return;
}

# What of ours is there, to the column; and what of it has gone since. (The tables of the next days come meanwhile.)
sub ours
{
	return [ split /\n/, $node->safe_psql($database, q{SELECT what FROM (
		SELECT concat_ws(' ', c.oid::regclass, c.relkind, a.attname, a.atttypid::regtype) AS what FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
		WHERE c.relnamespace::regnamespace::text ~ '^outbox' UNION ALL SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace::regnamespace::text ~ '^outbox') t ORDER BY what}) ];
}
sub gone { my ($before) = @_; my %now = map { $_ => 1 } @{ ours() }; return [ grep { !$now{$_} } @$before ] }

# ask LANGUAGE COMMAND...: what the program says of each question, or undef where it cannot be had here.
sub ask
{
	my ($language, @command) = @_;
	if (defined $lacks{$language}) { push @table, [ $language, "not run: $lacks{$language}" ]; return }
	my %environment = (PGHOST => '127.0.0.1', PGPORT => $node->port, PGUSER => 'postgres', PGDATABASE => $database, LC_ALL => 'C.UTF-8',
		JDBC_URL => 'jdbc:postgresql://127.0.0.1:' . $node->port . "/$database");
	my ($out, $err) = ('', '');
	local @ENV{ keys %environment } = values %environment;
	IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(300));
	my %said = map { my $line = eval { $json->utf8->decode($_) }; $line ? ($line->{case} => $line) : () } split /\n/, $out;
	diag("@command: $err") if !%said;
	foreach my $case (sort keys %said) { fail("$case: $said{$case}{failed}") if defined $said{$case}{failed} }
	return \%said;
}

# Statements of these that name something of ours.
sub of_ours { my ($said) = @_; return grep { /outbox/ } map { split /;\s*\n/ } @{ $said->{statements} // [] }, @{ $said->{lines} // [] } }

# Runs the statements as the tool would, all of them or none, as a superuser; the first error.
sub apply
{
	my ($said) = @_;
	my $sql = join '', map { s/;?\s*\z/;\n/r } grep { !/^(?:BEGIN|COMMIT);?$/ } @{ $said->{statements} };
	my (undef, undef, $error) = $node->psql($database, "\\set VERBOSITY verbose\nBEGIN;\n${sql}COMMIT;", on_error_stop => 1);
	return $error =~ /ERROR:  (\w{5}: .*)/ ? $1 : 'went through';
}

# as_it_comes TOOL, WHAT-IT-SAYS, QR: it sees ours, and what it would do about that is refused, to the last object.
sub as_it_comes
{
	my ($tool, $said, $refusal) = @_;
	my $before = ours();
	ok(scalar of_ours($said), "$tool, as it comes, sees objects of outbox");
	my $error = apply($said);
	like($error, $refusal, "$tool: what it would do is refused");
	is_deeply(gone($before), [], "$tool: and everything is there");
	push @table, [ $tool, 'refused: ' . substr $error, 0, 90 ];
	return;
}

sub kept_away
{
	my ($tool, $said, $setting) = @_;
	ok($said, "$tool: it was asked");
	is_deeply([ of_ours($said // {}) ], [], "$tool, with $setting, sees nothing of outbox");
	push @table, [ $tool, "sees nothing ($setting)" ];
	return;
}

my $dependent = qr/^2BP01: cannot drop \w+ \S+ because extension outbox requires it|^55000: cannot drop .*outbox/;
my $exists = qr/^42P07: relation "event" already exists/;
fresh('shop');
my $there = ours();

if (my $said = ask('python', "$installed/python/venv/bin/python", "$installed/python/migrations.py"))
{
	as_it_comes('Alembic, a mapped event', $said->{alembic}, $exists);
	$said->{alembic_all_schemas}{statements} = [ grep { !/CREATE TABLE/ } @{ $said->{alembic_all_schemas}{statements} } ];
	as_it_comes('Alembic, include_schemas', $said->{alembic_all_schemas}, $dependent);
	kept_away('Alembic', $said->{alembic_set}, 'include_name and include_object');
	kept_away('Django inspectdb', $said->{django_inspectdb}, 'nothing set: it reads the search path');
	as_it_comes('Django makemigrations, managed', $said->{django_managed}, $exists);
	kept_away('Django makemigrations', $said->{django_set}, 'managed = False');
}
if (my $said = ask('node', 'node', "$installed/node/out/migrations_client.mjs"))
{
	as_it_comes('TypeORM synchronize', $said->{typeorm_synchronized}, qr/^42809: |^55000: /);
	kept_away('TypeORM', $said->{typeorm_set}, 'synchronize: false');
	kept_away('drizzle-kit pull', $said->{drizzle_pull}, 'nothing set: schemaFilter is public');
	ok(scalar of_ours($said->{drizzle_pull_all}), 'drizzle-kit pull, with every schema in schemaFilter, sees objects of outbox');
	as_it_comes('drizzle-kit generate, a mapped event', $said->{drizzle_generate_event}, $exists);
	kept_away('drizzle-kit generate', $said->{drizzle_set}, 'the event not in its schema file');
}
if (my $said = ask('node', 'node', "$installed/node/out/prisma_migrate_client.mjs"))
{
	kept_away('Prisma db pull', $said->{prisma_pull}, 'nothing set: schemas of the datasource are public');
	like($said->{prisma_pull}{said}, qr/^model Order /m, 'Prisma has read the others');
	ok(scalar of_ours($said->{prisma_pull_all}), 'Prisma db pull, with outbox among its schemas, sees tables of outbox');
	foreach my $case (qw(prisma_push prisma_push_event))
	{
		like($said->{$case}{said}, qr/ERROR: cannot drop .*outbox/, "$case, as it comes, is refused");
		push @table, [ $case, 'refused: ' . ($said->{$case}{said} =~ /ERROR: (.*)/ ? $1 : '') ];
	}
	kept_away('Prisma migrate', $said->{prisma_set}, 'tables.external');
	like($said->{prisma_set}{pushed}, qr/already in sync/, 'Prisma db push: no drift');
	like($said->{prisma_set}{developed}, qr/Already in sync, no schema change or pending migration was found/, 'Prisma migrate dev: no drift, and no migration');
	is_deeply([ sort(($said->{prisma_set}{external} // '') =~ /outbox\.(\w+)/g) ],
		[ split /\n/, $node->safe_psql($database, q{SELECT 'event' UNION ALL SELECT relname FROM pg_class WHERE relnamespace = 'outbox'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1}) ],
		'the page names each table of the schema');
}
if (my $said = ask('ruby', 'ruby', "$top/test/clients/ruby/migrations.rb"))
{
	is_deeply([ grep { !/\Aenable_extension "outbox"\z/ } of_ours($said->{rails}) ], [], 'Rails db:schema:dump has nothing of outbox but the extension');
	push @table, [ 'Rails schema.rb', 'enable_extension "outbox", and nothing else' ];
}
if (my $said = ask('php', 'php', "$top/test/clients/php/migrations.php"))
{
	like($said->{doctrine}{error} // '', qr/^Unknown database type \w+ requested/, 'Doctrine, as it comes, fails in any database that has the extension');
	as_it_comes('Doctrine, with all types known', $said->{doctrine_types}, $dependent);
	kept_away('Doctrine', $said->{doctrine_set}, 'schema_filter');
}
if (my $said = ask('java', 'java', '-cp', "$installed/java/classes:$installed/java/lib/*", 'Migrations', qw(liquibase liquibase_all
			liquibase_drop_all liquibase_drop_internal flyway_clean_outbox flyway_clean_internal flyway_clean)))
{
	kept_away('Liquibase diff', $said->{liquibase}, 'nothing set: its schemas are public');
	ok(scalar of_ours($said->{liquibase_all}), 'Liquibase, with every schema, sees objects of outbox');
	foreach my $case (qw(liquibase_drop_all liquibase_drop_internal flyway_clean_outbox flyway_clean_internal))
	{
		like("$said->{$case}{sqlstate}: $said->{$case}{message}", $dependent, "$case is refused");
		push @table, [ $case, "refused: $said->{$case}{sqlstate}: $said->{$case}{message}" ];
	}
	is($node->safe_psql($database, q{SELECT to_regclass('orders') IS NULL}), 't', 'flyway clean took the tables of the application');
	push @table, [ 'Flyway clean of public', 'takes the application away, and nothing of outbox' ];
}
is_deeply(gone($there), [], 'after all of these, everything of outbox is there');
is($node->safe_psql($database, 'SELECT count(*) FROM outbox_internal.log'), 1, 'and so is the event that was undelivered');

# pg_dump -s of a database at two days: the tables of days are in it, but for those who leave them out, and what is left can be
# loaded and emits.
fresh('dumped');
sub dump_of { my ($from, @more) = @_; my ($out, $err) = run_command([ 'pg_dump', '-s', '-h', $node->host, '-p', $node->port, '-U', 'postgres', @more, $from ]); return $out }
my @without_days = slurp_file("$top/docs/clients.md") =~ /^pg_dump -s (--\S+?) shop$/m ? $1 =~ s/'//gr : ();
is(scalar @without_days, 1, 'the page says how tables of days are left out');
my ($plain, $before) = (dump_of('dumped'), dump_of('dumped', @without_days));
$node->safe_psql('dumped', "SET outbox.allow_loss = on; CREATE TABLE outbox_internal.log_20300101 PARTITION OF outbox_internal.log FOR VALUES FROM ('2030-01-01 00:00+00') TO ('2030-01-02 00:00+00')");
my $days = sub { scalar(() = $_[0] =~ /^CREATE TABLE outbox\S*_20\d{6} /mg) };
cmp_ok($days->(dump_of('dumped')), '>', $days->($plain), 'pg_dump -s differs from day to day');
is(dump_of('dumped', @without_days) =~ s/^\\(?:un)?restrict .*$//mgr, $before =~ s/^\\(?:un)?restrict .*$//mgr, 'without the tables of days it does not');
$node->safe_psql('postgres', 'CREATE DATABASE loaded');
my (undef, undef, $error) = $node->psql('loaded', $before, on_error_stop => 1);
is($error =~ s/^.*(?:NOTICE|WARNING|DETAIL|HINT):.*\n?//mgr, '', 'it is loaded without an error');
is($node->safe_psql('loaded', q{SELECT outbox.emit('order', 1, 'order.placed', '{}') IS NOT NULL}), 't', 'and emits');
push @table, [ 'pg_dump -s', "the tables of days; not with @without_days" ];

open my $out, '>', 'table.txt' or die "table.txt: $!";
printf $out "  %-38s %s\n", @$_ foreach @table;
close $out or die "table.txt: $!";
no_server_crashed($node);
done_testing();

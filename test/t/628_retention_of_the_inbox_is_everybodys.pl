# How long the inbox remembers is a value of the server or of the database: what it lets go are the marks of all consumers. A session or a role
# that has another one drops nothing of the others', and is told: a superuser's SET, set_config(), SET of a function, PGOPTIONS, ALTER ROLE;
# where outbox is preloaded and where it is not. Another value of the database holds for what sessions drop that are there already.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "autovacuum = off\n");
my $helpers = q{
	CREATE FUNCTION id(days integer, n integer) RETURNS uuid LANGUAGE sql AS $$
	  SELECT (lpad(to_hex((extract(epoch FROM date_trunc('day', now(), 'UTC') + interval '12 hours' - days * interval '1 day') * 1000)::bigint), 12, '0')
	    || '70008' || lpad(n::text, 15, '0'))::uuid $$;
	CREATE VIEW kept AS SELECT (now() AT TIME ZONE 'UTC')::date - kept_from AS days FROM outbox_internal.inbox_kept;
	CREATE ROLE app LOGIN SUPERUSER; CREATE ROLE reader LOGIN SUPERUSER};
$node->safe_psql('postgres', $helpers);
my $number = 0;
sub said { my ($sql, %options) = @_; my (undef, $out, $err) = $node->psql('postgres', $sql, on_error_stop => 0, %options); return ($out, $err) }
sub id { my ($days) = @_; return "id($days, " . ++$number . ')' }
# Marks of all: those of ten days ago are there for as long as kept_from is.
sub kept { return $node->safe_psql('postgres', 'SELECT days FROM kept') }
sub commits
{
	my ($before, %options) = @_;
	my ($out, $err) = said("$before " . join('', map { "SELECT outbox.receive('c', " . id(0) . ');' } 1 .. 3), %options);
	return $err;
}
my $not_here = qr/outbox\.inbox_retention.* (?:database|server).*\n.*everybody's.*\n.*ALTER DATABASE/;

foreach my $preloaded (1, 0)
{
	my $where = $preloaded ? 'preloaded' : 'not preloaded';
	if (!$preloaded)
	{
		$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
		$node->restart;
	}
	commits('');
	is(kept(), 14, "$where: fourteen days");
	like(commits(q{SET outbox.inbox_retention = '3d';}), $not_here, "$where: SET is told of");
	is(kept(), 14, "$where: and drops nothing");
	like(commits(q{SELECT set_config('outbox.inbox_retention', '3d', false);}), $not_here, "$where: so is set_config()");
	like(commits(q{BEGIN; SET LOCAL outbox.inbox_retention = '3d'; COMMIT; SELECT outbox.receive('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'); SET outbox.inbox_retention = '2d';}), $not_here, "$where: and SET once the library is there");
	{
		local $ENV{PGOPTIONS} = '-c outbox.inbox_retention=3d';
		like(commits(''), $not_here, "$where: and the client's options");
	}
	is(kept(), 14, "$where: none of which drops anything");

	# Of a role: refused, where the library hears of the command; else told, and it does not count.
	my (undef, $err) = said(q{ALTER ROLE app SET outbox.inbox_retention = '3d'});
	if ($preloaded)
	{
		like($err, $not_here, "$where: of a role, it is refused");
		(undef, $err) = said(q{ALTER ROLE app IN DATABASE postgres SET Outbox."inbox_retention" TO '3d'});
		like($err, $not_here, "$where: and of a role in a database");
		is((said(q{ALTER ROLE app RESET outbox.inbox_retention; ALTER ROLE ALL SET outbox.inbox_retention = '13d'; ALTER ROLE ALL RESET outbox.inbox_retention}))[1], '', "$where: it may be taken away, and be everybody's");
	}
	else
	{
		is($err, '', "$where: nobody hears of the command");
		like(commits('', extra_params => [ '-U', 'app' ]), $not_here, "$where: the role's sessions tell of it");
		is(kept(), 14, "$where: and it does not count");
		my $doctor = q{SELECT concat_ws(' ', detail, hint) FROM outbox.doctor() WHERE "check" = 'inbox'};
		like($node->safe_psql('postgres', $doctor), qr/outbox\.inbox_retention of role app does not count: .* ALTER ROLE app RESET outbox\.inbox_retention;$/, "$where: doctor() tells of it");
		is((said($node->safe_psql('postgres', $doctor) =~ /(ALTER ROLE .*;)/ ? $1 : '?'))[1], '', "$where: its hint works");
		like($node->safe_psql('postgres', $doctor), qr/^Consumers receive here; marks are kept/, "$where: and all is well");
	}
	is((said(q{SET outbox.inbox_retention TO DEFAULT; RESET outbox.inbox_retention; RESET ALL; SELECT count(*) FROM pg_class}))[1], '', "$where: nothing is said of a RESET");
}

# Values of everybody's count: of the database, of the server; also in a parallel worker, which has them from its leader.
$node->safe_psql('postgres', q{ALTER DATABASE postgres SET outbox.inbox_retention = '10d'});
is(commits(''), '', "the database's is taken");
is(kept(), 10, 'and counts');
my $forced = $node->safe_psql('postgres', q{SELECT string_agg(name, ' ') FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')});
is((said(qq{LOAD 'outbox'; SET $forced = on; SELECT count(*) FROM pg_class WHERE relname = 'inbox_kept'; SHOW outbox.inbox_retention}))[0], "1\n10d", "a parallel worker takes its leader's");
my $there = $node->background_psql('postgres');
is($there->query_safe('SHOW outbox.inbox_retention'), '10d', 'a session is there');
$node->safe_psql('postgres', q{ALTER DATABASE postgres SET outbox.inbox_retention = '12d'; UPDATE outbox_internal.inbox_kept SET kept_from = kept_from - 2});
$there->query_safe("SELECT outbox.receive('c', " . id(0) . ')');
is(kept(), 12, 'the database has a longer one: that session drops nothing of it');
$node->safe_psql('postgres', q{ALTER DATABASE postgres SET outbox.inbox_retention = '11d'});
ok(wait_until(sub { $there->query_safe("SELECT outbox.receive('c', " . id(0) . ')'); kept() == 11 }), 'and goes by what the database has by now');
$there->quit;
$node->safe_psql('postgres', q{ALTER DATABASE postgres RESET outbox.inbox_retention});
$node->append_conf('postgresql.conf', "outbox.inbox_retention = '5d'\n");
$node->reload;
ok(wait_for_value($node, q{SELECT current_setting('outbox.inbox_retention') IN ('5d', '7200')}, 't'), "the server's is there");
is(commits(''), '', 'and is taken');
is(kept(), 5, 'and counts');
no_server_crashed($node);
done_testing();

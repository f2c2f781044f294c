# ALTER EXTENSION outbox UPDATE from 0.1 where roles were granted columns of tables and views: what the server notes as the
# extension's initial rights while the script runs is taken out again, and no entry is left that says nothing: aclexplode()
# refuses such a one, from 17 on within the update itself, and for everybody who reads the catalog.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(extension => 0, conf => stage_with('outbox--0.1.sql'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

sql(q{CREATE EXTENSION outbox VERSION '0.1'; CREATE ROLE analyst; GRANT USAGE ON SCHEMA outbox TO analyst;
	GRANT SELECT (name, server) ON outbox.route TO analyst; GRANT SELECT (id, aggregate_type) ON outbox.log TO analyst;
	GRANT SELECT (route) ON outbox.lag TO analyst});
my ($code, $out, $err) = $node->psql('postgres', 'ALTER EXTENSION outbox UPDATE');
is($code, 0, 'it is updated') or diag($err);
is(sql(q{SELECT pg_describe_object(classoid, objoid, objsubid) FROM pg_init_privs WHERE cardinality(initprivs) = 0}), '', 'no entry of the catalog is empty');
($code, $out, $err) = $node->psql('postgres', q{SELECT count(*) FROM pg_init_privs i, aclexplode(i.initprivs) x WHERE x.grantee = 'analyst'::regrole});
is($out, '0', 'what was granted is not called part of the extension') or diag($err);
is(sql(q{SELECT string_agg(c.relname || '.' || a.attname, ' ' ORDER BY c.relname, a.attname COLLATE "C") FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid, aclexplode(a.attacl) x
	WHERE x.grantee = 'analyst'::regrole}), 'lag.route log.aggregate_type log.id route.name route.server', 'and it holds');
my ($dump) = run_command([ 'pg_dump', '--schema-only', '-d', $node->connstr('postgres') ]);
like($dump, qr/^GRANT SELECT\($_\) ON TABLE outbox\.route TO analyst;$/m, "a dump has it: $_") foreach qw(name server);
is(($node->psql('postgres', 'DROP OWNED BY analyst; DROP ROLE analyst'))[2], '', 'and the role can go');
done_testing();

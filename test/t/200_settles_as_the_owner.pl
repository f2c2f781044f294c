# What the owner of the tables has made of them (a trigger, a default) runs with his rights and no others, also where the first
# event makes the outbox belong to its database: the worker that makes the day's table settles that, a keeper where none was
# free, and adopt() in a copy, and all three begin as superusers.
# matrix: G11 R64
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0);
sub sql { my ($query, $database) = @_; return $node->safe_psql($database // 'postgres', $query) }

# A database whose outbox belongs to somebody who is no superuser, and would like to be one.
sub planted
{
	my ($database) = @_;
	sql("CREATE DATABASE $database; CREATE ROLE $database LOGIN; GRANT pg_read_all_stats TO $database");
	sql(qq{CREATE EXTENSION outbox; GRANT USAGE, CREATE ON SCHEMA outbox, outbox_internal, public TO $database;
		CREATE TABLE public.ran (as_whom text, what text); GRANT ALL ON public.ran TO $database;
		DO \$\$ DECLARE what text; BEGIN
		  FOR what IN SELECT format('ALTER TABLE %s OWNER TO $database', oid::regclass) FROM pg_class WHERE relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND relkind IN ('r', 'p', 'v')
		    UNION ALL SELECT format('ALTER ROUTINE %s OWNER TO $database', oid::regprocedure) FROM pg_proc WHERE pronamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) LOOP EXECUTE what; END LOOP;
		END \$\$}, $database);
	sql(qq{SET outbox.allow_loss = on; SET ROLE $database;
		CREATE FUNCTION public.planted() RETURNS trigger LANGUAGE plpgsql AS \$\$
		BEGIN
		  INSERT INTO public.ran VALUES (current_user, TG_OP || ' ' || TG_TABLE_NAME || ', ' || (SELECT backend_type FROM pg_stat_get_activity(pg_backend_pid())));
		  BEGIN ALTER ROLE $database SUPERUSER; EXCEPTION WHEN OTHERS THEN NULL; END;
		  BEGIN RESET ROLE; ALTER ROLE $database SUPERUSER; EXCEPTION WHEN OTHERS THEN NULL; END;
		  RETURN coalesce(NEW, OLD);
		END \$\$;
		CREATE TRIGGER planted BEFORE INSERT OR DELETE ON outbox_internal.identity FOR EACH ROW EXECUTE FUNCTION public.planted();
		CREATE TRIGGER planted BEFORE INSERT OR DELETE ON outbox_internal.origin FOR EACH ROW EXECUTE FUNCTION public.planted();
		ALTER TABLE outbox_internal.identity ENABLE ALWAYS TRIGGER planted; ALTER TABLE outbox_internal.origin ENABLE ALWAYS TRIGGER planted}, $database);
	return;
}

sub harmless
{
	my ($database, $what, $ran) = @_;
	is(sql('SELECT string_agg(DISTINCT as_whom, \' \') FROM public.ran', $database), $database, "$what: as the owner");
	is(sql('SELECT string_agg(DISTINCT what, \'; \') FROM public.ran', $database), $ran, "$what: it has run");
	is(sql("SELECT rolsuper FROM pg_roles WHERE rolname = '$database'"), 'f', "$what: no superuser");
	sql('DELETE FROM public.ran', $database);
	return;
}

sub inserted { my ($by) = @_; return "INSERT identity, $by; INSERT origin, $by" }
planted('first_emit');
sql(q{SELECT outbox.emit('a', 1, 'e', '{}')}, 'first_emit');
ok(wait_until(sub { sql('SELECT count(*) FROM outbox_internal.identity', 'first_emit') eq '1' }, 30), 'the first emit settles');
harmless('first_emit', 'a worker for a day table', inserted('outbox day table maker'));

# No worker free: the event goes to the spare table, and the keeper settles.
planted('by_the_keeper');
my $unmade = q{BEGIN; LOCK TABLE outbox_internal.log IN SHARE UPDATE EXCLUSIVE MODE};
my $holder = $node->background_psql('by_the_keeper');
$holder->query_safe($unmade);
sql(q{SELECT outbox.emit('a', 1, 'e', '{}')}, 'by_the_keeper');
is(sql('SELECT count(*) FROM ONLY outbox_internal.log_spare', 'by_the_keeper'), '1', 'an event in the spare table');
$holder->query_safe('ROLLBACK');
$holder->quit;
sql('SELECT outbox.look_again()', 'by_the_keeper');
ok(wait_until(sub { sql('SELECT count(*) FROM outbox_internal.identity', 'by_the_keeper') eq '1' }, 30), 'the keeper settles');
harmless('by_the_keeper', 'a keeper', inserted('outbox keeper'));

planted('by_route');
sql(q{CREATE SERVER s FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', 's')}, 'by_route');
harmless('by_route', 'create_route()', inserted('client backend'));

# A copy of the files, adopted by a superuser.
sql('CREATE DATABASE copied TEMPLATE first_emit');
sql('SELECT outbox.adopt()', 'copied');
is(sql(q{SELECT string_agg(DISTINCT as_whom, ' ') FROM public.ran}, 'copied'), 'first_emit', 'adopt(): as the owner');
is(sql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'first_emit'}), 'f', 'adopt(): no superuser');
no_server_crashed($node);
done_testing();

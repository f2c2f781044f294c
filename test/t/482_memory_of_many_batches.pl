# A procedure that commits as it goes needs no more memory for its last batch than for its second: replay() of ten thousand
# events, redrive() and discard_dead_letters() of as many dead letters. A trigger on what they write looks at the memory of
# the very session, batch by batch.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
my $events = 10_000;
sub sql { return $node->safe_psql('postgres', @_) }
sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', 'n')));
sql(qq(SELECT count(outbox.emit('k', (i % 1000)::text, 'e', '{}'::jsonb)) FROM generate_series(1, $events) i));
ok(wait_for_value($node, 'SELECT sum(pending) FROM outbox.lag', '0', 60), 'ten thousand events are delivered');
sql(q(SELECT outbox.pause('all', reason => 'what is copied stays')));
sql(q(
	CREATE TABLE memory (n bigserial, call text, session int, bytes bigint);
	CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF current_setting('application_name') LIKE 'call %' THEN
			INSERT INTO public.memory (call, session, bytes) SELECT current_setting('application_name'), pg_backend_pid(), sum(used_bytes)
			FROM pg_backend_memory_contexts WHERE name = 'SPI Proc';
		END IF;
		RETURN NULL;
	END $$;
	CREATE TRIGGER remember AFTER INSERT OR UPDATE OR DELETE ON outbox_internal.parked FOR EACH STATEMENT EXECUTE FUNCTION remember()));

# The memory of a call: in which batches it was looked at, and by how much it has grown from the second to the last but one (which
# may be smaller).
sub grows
{
	my ($what, $call) = @_;
	sql("SET client_min_messages = error; SET application_name = 'call $what'; $call");
	my ($looks, $second, $last) = split /\|/, sql(
		"SELECT count(*), (array_agg(bytes ORDER BY n))[3], (array_agg(bytes ORDER BY n DESC))[3] FROM memory WHERE call = 'call $what'");
	cmp_ok($looks, '>=', 20, "$what: twenty batches");
	note("$what: $looks looks, $second bytes, then $last");
	return cmp_ok($last - $second, '<', 100_000, "$what: the last ones need what the first ones did");
}

grows('replay', q(CALL outbox.replay(since => '-infinity', route => 'all', per_second => NULL, dry_run => false)));
is(sql('SELECT count(*) FROM outbox_internal.parked'), $events, 'all are copied');
my $dead = q(SET outbox.allow_loss = on; UPDATE outbox_internal.parked SET state = 'dead', due_at = NULL, attempts = 1, failed_at = now(),
	error_class = 'message', error_code = 'TOO_LARGE', error_message = 'too large');
sql($dead);
grows('redrive', q(CALL outbox.redrive('all', batch => 500, dry_run => false)));
sql($dead);
grows('discard', q(CALL outbox.discard_dead_letters('all', batch => 500, dry_run => false, reason => 'test')));
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'and given up');
$node->stop;
done_testing();

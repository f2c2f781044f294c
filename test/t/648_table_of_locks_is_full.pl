# The server's table of locks is full, which has the SQLSTATE of memory that has run out: what is said of it names
# max_locks_per_transaction, and doctor() has rows all the same.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\nmax_locks_per_transaction = 64\nmax_connections = 20\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('all'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub said { my ($what, $name) = @_; return ok(wait_until(sub { slurp_file($node->logfile) =~ $what }, 60), $name) || diag(slurp_file($node->logfile)) }

# --- a lane -----------------------------------------------------------------------------------------------------------
# As PostgreSQL raises it, in whatever language: no event can be parked, and one for later stops its lane.
sql(q(SET outbox.allow_loss = on; CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'out of shared memory' USING ERRCODE = '53200', HINT = 'You might need to increase max_locks_per_transaction.'; END $$;
  CREATE TRIGGER refuse BEFORE INSERT ON outbox_internal.parked FOR EACH ROW EXECUTE FUNCTION public.refuse()));
sql(q(SELECT outbox.emit('order', 'k', 'one', '{}', deliver_at => now() + interval '1 day')));
said(qr/WARNING:  outbox: lane 0 of route "redis" is in trouble: out of shared memory \(You might need to increase max_locks_per_transaction\.\)\n.*DETAIL:  The error is 53200\..*\n.*HINT:  Raise max_locks_per_transaction/,
	'a warning, with what to do');
is(sql(q(SELECT error_code || ' ' || error_message FROM outbox.lag)), '53200 out of shared memory (You might need to increase max_locks_per_transaction.)',
	'outbox.lag has what PostgreSQL says');
like(sql(q(SELECT hint FROM outbox.doctor() WHERE "check" = 'lane' AND status <> 'ok')), qr/^Raise max_locks_per_transaction/, 'doctor() says what to do, too');
sql(q(SET outbox.allow_loss = on; DROP TRIGGER refuse ON outbox_internal.parked));
said(qr/LOG:  outbox: lane 0 of route "redis" works again after [\d.]+ s/, 'and that it is over');

# --- doctor() ---------------------------------------------------------------------------------------------------------
# Sessions have room for a few locks of their own, and doctor() takes more.
my $hog = $node->background_psql('postgres');
$hog->query_safe(q(DO $$ BEGIN FOR i IN 1..1000000 LOOP PERFORM pg_advisory_lock(i); END LOOP; EXCEPTION WHEN out_of_memory THEN NULL; END $$));
$hog->query_safe(q(SELECT count(pg_advisory_unlock(i)) FROM generate_series(1, 10) i));
my ($code, $rows, $error) = $node->psql('postgres', 'SELECT "check" || \'|\' || status || \'|\' || detail || \'|\' || hint FROM outbox.doctor()');
is($code, 0, 'doctor() has an answer') || diag($error);
like($rows, qr/^locks\|problem\|This check failed.*: out of shared memory \(.*max_locks_per_transaction.*\) \(53200\)\.\|Raise max_locks_per_transaction/m, 'which says what is full');
ok(scalar(split(/\n/, sql('SELECT "check" FROM outbox.doctor()'))) > 2, 'and something of what else it has looked at');
$hog->quit;
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.doctor() WHERE detail LIKE 'This check failed%'), 0, 30), 'all checks go well with room for locks');
no_server_crashed($node);
done_testing();

# A relay worker that runs and cannot claim a lane: outbox.lag and doctor() tell the error, and no more once it can.
# matrix: M4
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('s'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql(q(SELECT outbox.emit('order', 'k', 'made', '{}')));
ok(wait_idle($node), 'delivered');
my $lane = q(SELECT concat_ws(' ', state, pending, error_class, error_code) FROM outbox.lag);

sql(q(SET outbox.allow_loss = on; CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'no' USING ERRCODE = '54000'; END $$;
  CREATE TRIGGER refuse BEFORE UPDATE ON outbox_internal.lane FOR EACH ROW EXECUTE FUNCTION public.refuse()));
$node->restart;
sql(q(SELECT outbox.emit('order', 'k', 'made', '{}')));
ok(wait_for_value($node, $lane, 'unowned 1 internal 54000', 60), 'outbox.lag says why nobody has the lane');
like(sql(q(SELECT detail FROM outbox.doctor() WHERE "check" = 'lane' AND status = 'problem')),
	qr/^Lane 0 of route "redis" has no relay worker: one that runs cannot claim lanes, 54000: no$/, 'doctor(), too');
unlike(sql(q(SELECT string_agg(hint, ' ') FROM outbox.doctor() WHERE "check" = 'lane')), qr/within a second or two/, 'and promises nothing');

sql(q(SET outbox.allow_loss = on; DROP TRIGGER refuse ON outbox_internal.lane));
ok(wait_idle($node, 60), 'claimed when it can be, and delivered');
is($redis->xlen('s'), 2, 'all of it');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.lag WHERE error_code IS NULL), '1', 60), 'and outbox.lag has nothing to say any more');
is(sql(q(SELECT count(*) FROM outbox.doctor() WHERE "check" = 'lane' AND status <> 'ok')), '0', 'nor doctor()');
no_server_crashed($node);
done_testing();

# A lane whose worker ends, or which is dropped, while it has trouble with its tables: the server's log says that its trouble is
# not followed further, and never that it is over. Its next worker tells of the trouble again, and of its end when that has come.
# matrix: M4
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('one'));
$node->safe_psql('postgres', q(SELECT outbox.create_route('other', server => 'redis', topic => 'two', event_types => '{two}')));
sub sql { return $node->safe_psql('postgres', $_[0]) }
my $mark = 0;
sub since { return slurp_file($node->logfile, $mark) }
sub said { my ($what, $name) = @_; return ok(wait_until(sub { since() =~ $what }, 60), $name) || diag(since()) }
my $trouble = qr/event=lane_trouble route=redis lane=0 error_code="P0001"/;
my $left = qr/event=lane_left route=redis lane=0/;
my $works = qr/event=lane_works/;

# Nothing can be parked: an event for later stops its lane.
sql(q(SET outbox.allow_loss = on; CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'no'; END $$;
  CREATE TRIGGER refuse BEFORE INSERT ON outbox_internal.parked FOR EACH ROW EXECUTE FUNCTION public.refuse()));
sql(q(SELECT outbox.emit('order', 'k', 'one', '{}', deliver_at => now() + interval '1 day')));
said($trouble, 'a lane is in trouble');

my ($pid) = relay_pids($node);
$mark = -s $node->logfile;
sql("SELECT pg_terminate_backend($pid)");
said($trouble, 'its next worker tells of it again');
like(since(), $left, 'the first one said that it does not follow it further');
unlike(since(), $works, 'and not that it is over');

$mark = -s $node->logfile;
$node->restart;
said($trouble, 'after a restart, too');
like(since(), $left, 'not followed further by a server that stops');
unlike(since(), $works, 'nor over');

$mark = -s $node->logfile;
sql(q(SET outbox.allow_loss = on; DROP TRIGGER refuse ON outbox_internal.parked));
said(qr/event=lane_works route=redis lane=0 seconds=/, 'the end is told when it has come');
unlike(since(), $left, 'by the worker that has it');

sql(q(SET outbox.allow_loss = on; CREATE TRIGGER refuse BEFORE INSERT ON outbox_internal.parked FOR EACH ROW EXECUTE FUNCTION public.refuse()));
$mark = -s $node->logfile;
sql(q(SELECT outbox.emit('order', 'k', 'one', '{}', deliver_at => now() + interval '1 day')));
said($trouble, 'in trouble once more');
sql(q(SET outbox.allow_loss = on; SELECT outbox.drop_route('redis')));
said($left, 'a lane of a dropped route leaves');
sql(q(SELECT outbox.emit('order', 'k', 'two', '{}')));
ok(wait_until(sub { $redis->xlen('two') == 1 }, 60), 'the other route goes on');
unlike(since(), $works, 'and nothing is said to work again');
no_server_crashed($node);
done_testing();

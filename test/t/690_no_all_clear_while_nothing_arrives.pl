# A Redis behind a proxy that closes the connection at each event, for no fault of theirs: while nothing gets through nobody says that the
# destination works again, and where only events are left that go by the second connection, that is told of that one.
use strict;
use warnings;

use Outbox::Proxy;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\noutbox.lone_emit = allow\n");
my $redis = Outbox::Redis->start;
my $proxy = Outbox::Proxy->new;
redis_route($node, { port => $proxy->redis($redis) }, 'r', topic => q('s'), backoff_cap => q('1 s'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub lines { my ($line) = @_; return scalar(() = slurp_file($node->logfile) =~ /$line/g) }
my $works = qr/LOG:  outbox: destination "r" works again/;
my $told = qr/WARNING:  outbox: destination "r" is used, but what is tried again goes by a connection of its own, and that takes nothing: /;

sql(q{SELECT outbox.emit_text('s', 'k', 'x', 'one')});
ok(wait_idle($node), 'delivered');

$proxy->tell(redis => 'hangup payload');
sql(q{SELECT outbox.emit_text('s', 'k' || i, 'x', 'x') FROM generate_series(1, 3) i, generate_series(1, 3)});
ok(wait_until(sub { lines(qr/WARNING:  outbox: destination "r" is in trouble/) == 1 }, 120), 'the destination is in trouble');
my $began = time;
my $enough = $redis->connections + 15;
ok(wait_until(sub { lines($works) || ($redis->connections >= $enough && time - $began >= 30) }, 300), 'the connection is closed again and again');
is(lines($works), 0, 'nobody says that it works');
isnt(sql(q{SELECT state FROM outbox.destination}), 'closed', 'and it does not show as working');
$proxy->tell(redis => 'pass');
ok(wait_until(sub { lines($works) == 1 }, 60), 'it does when events arrive');
ok(wait_idle($node, 60), 'all of them');

$proxy->tell(redis => 'hangup payload');
sql(q{SELECT outbox.emit_text('s', 'l' || i, 'x', 'x', deliver_at => clock_timestamp() + interval '0.5 s') FROM generate_series(1, 3) i});
ok(wait_until(sub { lines($told) == 1 }, 120), 'it is told that what is due goes no way')
  or diag(sql('SELECT * FROM outbox.destination') . sql('SELECT * FROM outbox.lag') . sql('SELECT state, error_code FROM outbox.parked_event'));
is(sql('SELECT count(*) FROM outbox.parked_event WHERE attempts > 0'), 0, 'no event is charged');
$proxy->tell(redis => 'pass');
ok(wait_idle($node, 60), 'all goes on');
ok(wait_until(sub { lines(qr/LOG:  outbox: what is tried again at destination "r" goes again/) == 1 }, 60), 'which is told');
no_server_crashed($node);
done_testing();

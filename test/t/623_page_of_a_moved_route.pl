# scripts/outbox-top of a route that went to another destination and came back: the figures of both are there, and the page has its
# destination of now, the rate of what goes now, and its times there.
# matrix: M7
use strict;
use warnings;

use IPC::Run;
use JSON::PP ();
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{OUTBOX_TOP};
my $page = "$top/scripts/outbox-top";
plan skip_all => 'python3-psycopg or python3-rich is not here' if system('/usr/bin/python3 -c "import psycopg, rich" 2>/dev/null') != 0;

my $node = new_node();
my $conninfo = 'host=' . $node->host . ' port=' . $node->port . ' dbname=postgres user=postgres';
sub sql { return $node->safe_psql('postgres', @_) }

sql(q{CREATE SERVER away FOREIGN DATA WRAPPER outbox_null OPTIONS (latency '3000'); CREATE SERVER home FOREIGN DATA WRAPPER outbox_null;
	SELECT outbox.create_route('mover', server => 'home', aggregate_types => '{move}')});
foreach my $server (qw(home away home))
{
	sql("SELECT outbox.alter_route('mover', server => '$server')");
	sql(q{SELECT outbox.emit('move', 'k', 'e', '{}')});
	ok(wait_idle($node), "an event of the route went $server");
	my $out = '';
	IPC::Run::run([ $page, '--once', '--json', $conninfo ], '<', \undef, '>', \$out);
	is((grep { $_->{route} eq 'mover' } @{ JSON::PP->new->decode($out)->{routes} })[0]{destination}, $server, '... which is its destination then');
}
# The page of one observer: the rate is of what goes now, and so are the times, far below those of the other destination.
my $moved = '';
IPC::Run::run([ '/usr/bin/python3', '-', "$top/scripts/outbox-top.d", $conninfo ], '<', \<<'PYTHON', '>', \$moved);
import sys, time
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import psycopg
from observer import Observer
observer = Observer(sys.argv[2])
observer.observe()
first = observer.counters  # until figures are asked for again, rates are those of the last minute
session = psycopg.connect(sys.argv[2], autocommit=True)
deadline = time.monotonic() + 60
rate = times = False
while not (rate and times) and time.monotonic() < deadline:
    session.execute("SELECT outbox.emit('move', 'k', 'e', '{}')")
    session.execute("SELECT outbox.wait_until_idle('60 s')")
    route = next(route for route in observer.observe().routes if route.route == "mover")
    rate = rate or (observer.counters is not first and route.rate > 0)
    times = route.p50_ms is not None and route.p50_ms < 1500
    time.sleep(0.1)
print("rate" if rate else f"rate {route.rate}", "times" if times else f"p50 {route.p50_ms}", route.destination)
PYTHON
is($moved, "rate times home\n", 'back where it was before, its rate and its times are those of now');
no_server_crashed($node);
done_testing();

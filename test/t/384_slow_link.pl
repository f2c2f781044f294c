# An event that is on the wire for longer than the minute after which a record without an outcome counts as forgotten: it
# is not begun again and again, but arrives, once, and the next ones with it. So does what goes by the second sink (here what is to be
# delivered later), which gives up after half a minute in which nothing moves.
# ring: long
use strict;
use warnings;

use Outbox::Proxy;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node();
my $proxy = Outbox::Proxy->new;
my $redis = Outbox::Redis->start;
my $kafka = Outbox::Kafka::available() ? $proxy->kafka : undef;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my @brokers = ('redis', $kafka ? 'kafka' : ());
my $port = $proxy->redis($redis);
if ($kafka)
{
	$kafka->create_topic('slow', 1);
	$proxy->tell('kafka', 'slow 9000 0');
	kafka_route($node, $kafka->{proxied}, 'kafka', topic => q('slow'), aggregate_types => q('{kafka}'), server_options => q(, "socket.timeout.ms" '300000'));
}
$proxy->tell('redis', 'slow 9000 0');
redis_route($node, { port => $port }, 'redis', topic => q('slow'), aggregate_types => q('{redis}'), server_options => q(, timeout '30000'));
my $begin = time;
sql("SELECT outbox.emit_text('$_', 'k', 'x', repeat('x', 800000)); SELECT outbox.emit_text('$_', 'k', 'x', 'behind it')") foreach @brokers;
ok(wait_idle($node, 300), 'all is delivered') or diag(sql('SELECT * FROM outbox.lag') . sql('SELECT * FROM outbox.destination'));
cmp_ok(time - $begin, '>', 70, 'after more than a minute');
unlike(slurp_file($node->logfile), qr/NO_OUTCOME|is in trouble/, 'nothing was in trouble, and no sink was started again');

# Here what is on its way by one connection may keep the link from another, which is trouble.
$begin = time;
sql("SELECT outbox.emit_text('$_', 'large', 'x', repeat('y', 450000), deliver_at => now() + interval '2 s'), outbox.emit_text('$_', 'small', 'x', 'beside it', deliver_at => now() + interval '2 s')")
	foreach @brokers;
is(sql(q{SELECT outbox.wait_until_idle('300 s', include_delayed => true)}), 't', 'what was for later is delivered, too')
  or diag(sql('SELECT * FROM outbox.lag') . sql('SELECT * FROM outbox.destination'));
cmp_ok(time - $begin, '>', 35, 'after more than half a minute');

# To be read of Kafka it must not be slow.
$proxy->tell($_, 'pass') foreach @brokers;
sub got { my ($broker, $which) = @_; return join ' ', sort map { length } grep { $_ =~ $which } @{ $broker eq 'redis' ? $redis->column('slow', 'payload') : $kafka->payloads('slow') } }
is(got($_, qr/^x|behind/), '800000 9', "to $_ once") foreach @brokers;
is(got($_, qr/^y|beside/), '450000 9', "to $_ once, too") foreach @brokers;
unlike(slurp_file($node->logfile), qr/NO_OUTCOME|ABORTED/, 'no sink was started again');
no_server_crashed($node);
$node->stop;
$proxy->stop;
done_testing();

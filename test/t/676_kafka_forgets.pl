# A Kafka broker comes back with its log directory of before: what it had acknowledged since is gone, and it acknowledges on
# at offsets that it has acknowledged. That is told, once each time and for an hour; a broker that comes back with all it had is no news.
# ring: long
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();
my $kafka = Outbox::Kafka->start;
$kafka->create_topic('t', 1);
my $node = new_node();
kafka_route($node, $kafka, 'kafka', topic => "'t'");
my $events = 0;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub told { return sql(q(SELECT status, detail FROM outbox.doctor() WHERE "check" = 'destination' AND status <> 'ok')) }
sub lines { return scalar(() = slurp_file($node->logfile) =~ /WARNING: .*destination "kafka" is used, but topic "t" has lost what it had acknowledged/g) }

sub delivered
{
	my ($count, $what) = @_;
	sql("SELECT outbox.emit_text('a', '1', 'e', n::text) FROM generate_series($events + 1, $events + $count) n");
	$events += $count;
	return ok(wait_idle($node, 60), "delivered $what");
}

sub copy { my ($from, $to) = @_; return system('rm', '-rf', "$kafka->{dir}/$to") == 0 && system('cp', '-a', "$kafka->{dir}/$from", "$kafka->{dir}/$to") == 0 }

delivered(5, 'what is kept');
$kafka->stop;
ok(copy('data', 'before'), 'a copy of its disk');
$kafka->restart;
delivered(7, 'what will be lost');
is(told(), '', 'a restart is no news');

$kafka->kill9;
ok(copy('before', 'data'), 'the disk is replaced by its copy');
$kafka->restart;
delivered(1, 'what comes next');
is(sql('SELECT count(*) FROM outbox_internal.parked'), 0, 'nothing is parked');
ok($kafka->count('t') < $events, 'it lacks what it had acknowledged');
ok(wait_until(sub { told() ne '' }, 60), 'doctor() tells of it');
my $expected = qr/^warning\|Destination "kafka" works, but OFFSETS_WENT_BACK: topic "t" has lost what it had acknowledged, or was made anew: partition 0 had acknowledged up to offset 11, and at \d\d:\d\d:\d\d UTC a later event at 5$/;
like(told(), $expected, 'what, and where');
like(sql(q(SELECT hint FROM outbox.doctor() WHERE detail ~ 'OFFSETS_WENT_BACK')), qr/CALL outbox\.replay\(since => /, 'and what to do');
is(sql('SELECT state, error_class, error_code FROM outbox.destination'), 'closed|destination|OFFSETS_WENT_BACK', 'outbox.destination has it');
ok(wait_until(sub { lines() == 1 }, 60), 'and the log');

delivered(20, 'more');
like(told(), $expected, 'further deliveries do not end it');
sql(q(CALL outbox.replay(since => '-infinity', route => 'kafka', dry_run => false)));
ok(wait_idle($node, 60), 'replayed');
ok(wait_until(sub { my %got = map { $_ => 1 } @{ $kafka->payloads('t') }; return keys %got == $events }, 60), 'and all of it is there again');
is(lines(), 1, 'the log has it once');
no_server_crashed($node);
done_testing();

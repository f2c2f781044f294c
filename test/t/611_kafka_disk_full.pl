# The disk of the only Kafka node is full: it takes nothing more, and ends. The lane waits, doctor() tells of it, and when there is room
# again all of it arrives, in the order of its key; nothing is taken for a dead letter.
# matrix: D22
# ring: long
use strict;
use warnings;

use Outbox::Disk;
use Outbox::Kafka;
use Outbox::Test;
use Test::More;

Outbox::Kafka->skip_without;
Outbox::Disk->skip_without;
my $kafka = do { local $ENV{TMPDIR} = Outbox::Disk::directory('kafka'); Outbox::Kafka->start('log.segment.bytes=4194304') };
$kafka->create_topic('orders', 2);
my $node = new_node();
kafka_route($node, $kafka, 'orders', topic => "'orders'");
sub sql { return $node->safe_psql('postgres', 'SET outbox.lone_emit = allow;' . join '', @_) }
# Some ten kB each.
sub emit { my ($from, $to) = @_; return sql(qq{SELECT count(outbox.emit_text('order', (i % 7)::text, 'e', i || ' ' || (SELECT string_agg(md5((i * 100 + k)::text), '') FROM generate_series(1, 300) k))) FROM generate_series($from, $to) i}) }

emit(1, 100);
ok(wait_idle($node), 'delivered');
Outbox::Disk::fill();
emit(101, 1500);
ok(wait_until(sub { sql(q(SELECT count(error_code) FROM outbox.lag)) ne '0' }, 60), 'the lane is in trouble');
my $told = q(SELECT coalesce(string_agg(DISTINCT "check", ' ' ORDER BY "check"), '') FROM outbox.doctor() WHERE status <> 'ok' AND "check" IN ('lane', 'destination'));
ok(wait_for_value($node, $told, 'destination lane', 60), 'doctor() tells of it');
is(sql('SELECT count(*) FROM outbox_internal.parked'), 0, 'nothing is parked');

Outbox::Disk::free();
$kafka->restart;
ok(wait_idle($node), 'there is room again: delivered');
is(sql('SELECT count(*) FROM outbox_internal.parked'), 0, 'nothing was parked');
my (%seen, @turned, %last);
foreach my $record (@{ $kafka->records('orders') })
{
	my ($number) = $record->{payload} =~ /^(\d+)/;
	push @turned, $number if !$seen{$number}++ && $number < ($last{ $record->{key} } // 0);
	$last{ $record->{key} } = $number if $number > ($last{ $record->{key} } // 0);
}
is(scalar(keys %seen), 1500, 'all of it');
is("@turned", '', 'in the order of its key');
ok(wait_for_value($node, $told, '', 60), 'and all is well');
no_server_crashed($node);
done_testing();

# One event in ten is refused, for the same setting of its topic (too large for it; without a key into a compacted one):
# the others flow, in order, at a rate that is printed, and each refused one is parked for what it is.
# matrix: D5 D20 R11
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(sleep time);

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start;
my $count = 3000;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub arrives { my ($topic, $wanted, $seconds) = @_; return wait_until(sub { $kafka->count($topic) >= $wanted }, $seconds) }
sub rate
{
	my ($topic, $emit, $good) = @_;
	sql($emit);
	my $start = time;
	my $there = arrives($topic, $good, 180);
	my $took = time - $start;
	my $settled = wait_until(sub { sql(q{SELECT coalesce(sum(pending), 0) FROM outbox.lag WHERE topic IS NULL}) == 0 }, 60);
	ok($there && $settled, sprintf '%s: %d events in %.2f s, %.0f a second', $topic, $count, $took, $count / $took);
	return $count / $took;
}

$kafka->create_topic('healthy', 4);
$kafka->create_topic('limited', 4, 'max.message.bytes=20000');
$kafka->create_topic('compacted', 4, 'cleanup.policy=compact');
$kafka->create_topic('other', 1);
kafka_route($node, $kafka, 'refused', topic => q('{aggregate_type}'));
my $good = $count * 9 / 10;
sub limited { my ($topic, $size) = @_; return qq(SELECT count(outbox.emit_text('$topic', (i % 50)::text, 'x', rpad(i::text, CASE WHEN i % 10 = 3 THEN $size ELSE 200 END))) FROM generate_series(1, $count) i) }
my $compacted = qq(SELECT count(outbox.emit_text('compacted', CASE WHEN i % 10 = 3 THEN NULL ELSE (i % 50)::text END, 'x', i::text)) FROM generate_series(1, $count) i);

my $healthy = rate('healthy', limited('healthy', 200), $count);
my $large = rate('limited', limited('limited', 30000), $good);
my $keyless = rate('compacted', $compacted, $good);
diag(sprintf 'of %.0f events a second, %.0f are left with one in ten too large, %.0f with one in ten without its key', $healthy, $large, $keyless);
# Where each refusal ended a producer it was a fifth.
cmp_ok($large, '>', $healthy / 5, 'the others flow beside those that are too large');
cmp_ok($keyless, '>', $healthy / 5, 'and beside those without a key');
foreach my $topic (qw(limited compacted))
{
	my (%last, %seen, $wrong);
	foreach my $text (@{ $kafka->payloads($topic) })
	{
		my ($number) = $text =~ /^(\d+)/;
		next if $seen{$number}++;
		$wrong = $text if ($last{ $number % 50 } // 0) > $number;
		$last{ $number % 50 } = $number;
	}
	is($wrong, undef, "$topic: each key in order");
}
is(sql(q{SELECT count(*), min(error_code), max(error_code) FROM outbox.dead_letter WHERE topic = 'limited'}), $count / 10 . '|MSG_SIZE_TOO_LARGE|MSG_SIZE_TOO_LARGE', 'these are dead letters');
cmp_ok(sql(q{SELECT count(*) FROM outbox.parked WHERE topic = 'compacted' AND error_code = 'INVALID_RECORD'}), '>=', $count / 10, 'the others are tried again');
# What is learnt is forgotten when it is no longer so: the limit is raised, and they are sent again.
$kafka->topic('alter', 'limited', 4, 'max.message.bytes=1000000');
my $before = $kafka->count('limited');
ok(wait_until(sub
{
	sql(q{CALL outbox.redrive(route => 'refused', topic => 'limited', dry_run => false)});
	return $kafka->count('limited') >= $before + $count / 10;
}, 60), 'the limit is raised: what was dead is delivered when somebody says so');
sql(q{SELECT outbox.emit('other', 1, 'x', '{}')});
ok(arrives('other', 1, 20), 'another topic flows');
no_server_crashed($node);
done_testing();

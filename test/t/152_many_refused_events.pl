# One event in ten is refused, for the same setting of its topic (too large for it; without a key into a compacted one):
# the others flow, in order, at a rate that is printed, and each refused one is parked for what it is.
# matrix: D5 D20 R11
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start;
my $count = 3000;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub arrives { my ($topic, $wanted, $seconds) = @_; return wait_until(sub { $kafka->count($topic) >= $wanted }, $seconds) }
sub rate
{
	my ($topic, $emit, $good) = @_;
	my $start = time; # the first are sent while the last are emitted
	sql($emit);
	my $there = arrives($topic, $good, 180);
	my $took = time - $start;
	my $settled = wait_until(sub { sql(q{SELECT coalesce(sum(pending), 0) FROM outbox.lag WHERE topic IS NULL}) == 0 }, 60);
	ok($there && $settled, sprintf '%s: %d events in %.2f s, %.0f a second', $topic, $count, $took, $count / $took);
	return $count / $took;
}

$kafka->create_topic('other', 1);
kafka_route($node, $kafka, 'refused', topic => q('{aggregate_type}'));
my $good = $count * 9 / 10;
sub limited { my ($topic, $size) = @_; return qq(SELECT count(outbox.emit_text('$topic', (i % 50)::text, 'x', rpad(i::text, CASE WHEN i % 10 = 3 THEN $size ELSE 200 END))) FROM generate_series(1, $count) i) }
sub keyless { my ($topic) = @_; return qq(SELECT count(outbox.emit_text('$topic', CASE WHEN i % 10 = 3 THEN NULL ELSE (i % 50)::text END, 'x', i::text)) FROM generate_series(1, $count) i) }

# What is left of the rate of a healthy topic. A machine that had something else to do meanwhile is asked again, with other
# topics, up to three times: the best beside the worst that a healthy one did.
sub left
{
	my ($topic, $emit, @properties) = @_;
	my ($best, $worst) = (0, undef);
	foreach my $try ('', '_2', '_3')
	{
		$kafka->create_topic("healthy_$topic$try", 4);
		$kafka->create_topic("$topic$try", 4, @properties);
		my $healthy = rate("healthy_$topic$try", limited("healthy_$topic$try", 200), $count);
		my $rate = rate("$topic$try", $emit->("$topic$try"), $good);
		diag(sprintf '%s: of %.0f events a second, %.0f are left', "$topic$try", $healthy, $rate);
		$best = $rate if $rate > $best;
		$worst = $healthy if !defined $worst || $healthy < $worst;
		last if $best > $worst / 10;
	}
	return $best / $worst;
}

# Where each refusal ended a producer it was 250 events a second, a thirtieth of what a broker that is warm takes.
cmp_ok(left('limited', sub { limited($_[0], 30000) }, 'max.message.bytes=20000'), '>', 1 / 10, 'the others flow beside those that are too large');
cmp_ok(left('compacted', \&keyless, 'cleanup.policy=compact'), '>', 1 / 10, 'and beside those without a key');
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
cmp_ok(sql(q{SELECT count(*) FROM outbox_internal.parked WHERE topic = 'compacted' AND error_code = 'INVALID_RECORD'}), '>=', $count / 10, 'the others are tried again');
# What is learnt is forgotten when it is no longer so: the limit is raised, and they are sent again.
$kafka->topic('alter', 'limited', 4, 'max.message.bytes=1000000');
my $before = $kafka->count('limited');
ok(wait_until(sub
{
	sql(q{CALL outbox.redrive(route => 'refused', topic => 'limited', dry_run => false)});
	return $kafka->count('limited') >= $before + $count / 10;
}, 60), 'the limit is raised: what was dead is delivered when it is redriven');
sql(q{SELECT outbox.emit('other', 1, 'x', '{}')});
ok(arrives('other', 1, 20), 'another topic flows');
no_server_crashed($node);
done_testing();

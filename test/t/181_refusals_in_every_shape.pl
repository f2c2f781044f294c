# Refusals in other shapes than one in ten: all, every second one, several of one key in a row with good ones behind them (skip
# and block), the limit raised while it lasts, the topic deleted and recreated with another limit; each where the
# topic's limit may be asked for and where it may not. Each event has one end, each key is in order.
# matrix: D5 D20 R11
use strict;
use warnings;

use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start(Outbox::Kafka::authorizer());
my $limit = 'max.message.bytes=5000';
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
# Events $from to $to over ten keys; those where $bad (SQL over i) are too large.
sub send_some { my ($topic, $from, $to, $bad, $size) = @_; $size //= 8000; return sql(qq{SELECT count(outbox.emit_text('$topic', (i % 10)::text, 'x', CASE WHEN $bad THEN rpad(i || ' ', $size, 'x') ELSE i || ' ' END)) FROM generate_series($from, $to) i}) }
sub delivered { my ($topic) = @_; my %seen; return grep { !$seen{$_}++ } map { /^(\d+) / ? $1 : () } @{ $kafka->payloads($topic) } }
sub parked { my ($topic) = @_; return sql(qq{SELECT count(*) FROM outbox_internal.parked WHERE topic = '$topic'}) }
# All events have their end: so many are there, so many parked.
sub ends
{
	my ($topic, $there, $parked, $what) = @_;
	ok(wait_until(sub { $kafka->count($topic) >= $there && parked($topic) == $parked }, 60), "$topic: $what") or diag(delivered($topic) . ' delivered, ' . parked($topic) . ' parked');
	my @numbers = delivered($topic);
	is(@numbers, $there, "$topic: as many as there should be");
	my (%last, @wrong);
	foreach my $number (@numbers)
	{
		push @wrong, $number if ($last{ $number % 10 } // 0) > $number;
		$last{ $number % 10 } = $number;
	}
	is_deeply(\@wrong, [], "$topic: each key in order");
	return;
}

foreach my $hidden (0, 1)
{
	my $of = $hidden ? 'hidden' : 'asked';
	my %topic = map { $_ => "$of-$_" } qw(all second row raised anew blocked);
	foreach my $topic (values %topic)
	{
		$kafka->create_topic($topic, 3, $limit);
		$kafka->topic('hide', $topic) if $hidden;
	}
	kafka_route($node, $kafka, $of, topic => q('{aggregate_type}'), lanes => 4, aggregate_types => 'ARRAY[' . join(', ', map { "'$topic{$_}'" } qw(all second row raised anew)) . ']');
	sql(qq{SELECT outbox.create_route('${of}_block', server => '$of', topic => '{aggregate_type}', lanes => 4, on_failure => 'block', aggregate_types => '{$topic{blocked}}')});
	# All of them at one moment.
	send_some($topic{all}, 1, 60, 'true');
	send_some($topic{second}, 1, 200, 'i % 2 = 0');
	send_some($topic{row}, 1, 200, 'i % 10 = 3 AND i BETWEEN 50 AND 150');
	send_some($topic{blocked}, 1, 200, 'i % 10 = 3 AND i BETWEEN 50 AND 150');
	send_some($topic{raised}, 1, 100, 'i % 4 = 0');
	send_some($topic{anew}, 1, 100, 'i % 4 = 0');
	ends($topic{all}, 0, 60, 'all are refused');
	ends($topic{second}, 100, 100, 'every second one is refused');
	ends($topic{row}, 190, 10, 'ten in a row of one key are refused, its others go on');
	ends($topic{blocked}, 185, 15, 'under block what comes behind the first waits');
	is(sql(qq{SELECT count(*) FILTER (WHERE state = 'dead'), count(*) FILTER (WHERE state = 'blocked') FROM outbox_internal.parked WHERE topic = '$topic{blocked}'}), '1|14', "$of: one is dead, the key waits behind it");
	ends($topic{raised}, 75, 25, 'refused before the limit is raised');
	ends($topic{anew}, 75, 25, 'refused before the topic is recreated');
	# The limit is raised while others are being refused.
	$kafka->alter_topic($topic{raised}, 'max.message.bytes=1000000');
	send_some($topic{second}, 201, 300, 'i % 2 = 0');
	ok(wait_until(sub { $kafka->count($topic{second}) >= 150 }, 30), "$of: others are refused meanwhile");
	sleep 2 if !$hidden;    # an answer counts for so long
	send_some($topic{raised}, 101, 200, 'i % 4 = 0');
	ends($topic{raised}, 175, 25, 'nothing is refused any more');
	sql(qq{CALL outbox.redrive(route => '$of', topic => '$topic{raised}', dry_run => false)});
	ok(wait_until(sub { delivered($topic{raised}) == 200 }, 60), "$of: what was refused is delivered when it is sent again");
	# Recreated with a lower limit.
	$kafka->delete_topic($topic{anew});
	$kafka->create_topic($topic{anew}, 3, 'max.message.bytes=2000');
	send_some($topic{anew}, 101, 200, 'i % 4 = 0', 3000);
	ok(wait_until(sub { delivered($topic{anew}) >= 75 && parked($topic{anew}) == 50 }, 90), "$of: the new topic's limit counts") or diag(delivered($topic{anew}) . ' delivered, ' . parked($topic{anew}) . ' parked');
	ok(wait_for_value($node, qq{SELECT coalesce(sum(pending), 0) FROM outbox.lag}, '0', 60), "$of: nothing is left");
}
no_server_crashed($node);
done_testing();

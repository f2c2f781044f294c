# One event in ten is refused while 64 lanes write to two topics of three partitions each: what is left of the rate, printed
# by this one run against a real Kafka, by what can be known of the topics. Whatever is refused is parked for what it is,
# everything else is there, each key in order.
# matrix: D5 D20 R11
# ring: long
use strict;
use warnings;

use Outbox::Test;
use Test::More;
use Time::HiRes qw(time);

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start(Outbox::Kafka::authorizer());
my %only = map { $_ => 1 } split / /, $ENV{OUTBOX_REFUSALS} // '';
my $of = q{(i + i / 10) % 2};  # the topic of event i
my %rate;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

# %how: limits (properties of each of the two topics), hidden (nobody may ask for them), options of the server, key and body
# of those that are to be refused, as SQL over i.
sub measure
{
	my ($name, $count, $code, %how) = @_;
	return if %only && !$only{$name};
	my @topics = ("$name-0", "$name-1");
	foreach my $i (0, 1)
	{
		$kafka->create_topic($topics[$i], 3, $how{limits}[$i] // ());
		$kafka->change('hide', $topics[$i]) if $how{hidden};
	}
	kafka_route($node, $kafka, $name, topic => q('{aggregate_type}'), aggregate_types => "ARRAY['$topics[0]', '$topics[1]']", lanes => 64,
		backoff_base => q('1 hour'), backoff_cap => q('1 hour'), server_options => $how{options} // '');
	my $key = $how{key} // '(i % 500)::text';
	my $body = $how{body} // 'i::text';
	my $bad = $code eq '' ? 'false' : 'i % 10 = 3';
	my $emitted = sub { my ($from, $to) = @_; return sql(qq{SELECT count(outbox.emit_text('$name-' || $of, CASE WHEN $bad THEN $key ELSE (i % 500)::text END, 'x', CASE WHEN $bad THEN $body ELSE rpad(i::text, 200) END)) FROM generate_series($from, $to) i}) };
	my $there = sub { my ($wanted) = @_; return wait_until(sub { $kafka->count($topics[0]) + $kafka->count($topics[1]) >= $wanted }, 120) };
	# The lanes are at work, nothing has been refused.
	sql(qq{SELECT count(outbox.emit_text('$name-' || i % 2, i::text, 'x', '0')) FROM generate_series(1, 600) i});
	$there->(600) or die 'the lanes do not begin';
	my $good = 600 + $count - ($code eq '' ? 0 : $count / 10);
	my $start = time;
	$emitted->(1, $count);
	ok($there->($good), "$name: all that is good arrives");
	my $took = time - $start;
	$rate{$name} = $count / $took;
	diag(sprintf '%-20s %5d events, %4d refused, in %5.2f s: %5.0f a second', $name, $count, $good == 600 + $count ? 0 : $count / 10, $took, $rate{$name});
	my $parked = $code eq '' ? '0||' : $count / 10 . '|' . ($code =~ /[|]/ ? $code : "$code|$code");
	ok(wait_for_value($node, qq{SELECT count(*), min(error_code), max(error_code) FROM outbox_internal.parked WHERE topic LIKE '$name-%'}, $parked, 60), "$name: each that is not is parked for what it is");
	foreach my $topic (@topics)
	{
		my (%last, %seen, @wrong);
		foreach my $number (map { /^(\d+)/ } @{ $kafka->payloads($topic) })
		{
			next if $number == 0 || $seen{$number}++;
			push @wrong, $number if ($last{ $number % 500 } // 0) > $number;
			$last{ $number % 500 } = $number;
		}
		is_deeply(\@wrong, [], "$topic: each key in order");
	}
	sql(qq{SELECT outbox.drop_route('$name')});
	return;
}

my $large = q{rpad(i::text, 30000)};
my $random = q{i || (SELECT string_agg(md5(i::text || j), '') FROM generate_series(1, 1900) j)};
my $limited = 'max.message.bytes=20000';
my $compacted = 'cleanup.policy=compact';
measure('healthy', 6000, '');
measure('large', 6000, 'MSG_SIZE_TOO_LARGE', limits => [ $limited, $limited ], body => $large);
measure('keyless', 6000, 'INVALID_RECORD', limits => [ $compacted, $compacted ], key => 'NULL');
measure('mixed', 6000, 'INVALID_RECORD|MSG_SIZE_TOO_LARGE', limits => [ $limited, $compacted ], key => qq{CASE WHEN $of = 0 THEN '1' END}, body => qq{CASE WHEN $of = 0 THEN $large ELSE i::text END});
measure('large_hidden', 2000, 'MSG_SIZE_TOO_LARGE', limits => [ $limited, $limited ], body => $large, hidden => 1);
measure('sizes_hidden', 2000, 'MSG_SIZE_TOO_LARGE', limits => [ $limited, $limited ], body => 'rpad(i::text, 20000 + i * 7 % 40000)', hidden => 1);
measure('keyless_hidden', 2000, 'INVALID_RECORD', limits => [ $compacted, $compacted ], key => 'NULL', hidden => 1);
measure('compressed', 1000, 'MSG_SIZE_TOO_LARGE', limits => [ $limited, $limited ], body => $random, options => q(, "compression.type" 'gzip'));
# Where each refusal ended the producer of all lanes, those that are hidden went at 11 a second here, 0.14 %. They take many
# seconds where the healthy take one: a busy machine leaves them less of it (5 % and more here, 0.8 % at a load of 20).
foreach my $name (grep { $_ ne 'healthy' && $rate{healthy} } sort keys %rate)
{
	my $part = $name =~ /large$|keyless$|mixed$/ ? 10 : 250;
	cmp_ok($rate{$name}, '>', $rate{healthy} / $part, sprintf '%s: %.1f %% of the rate of the healthy', $name, 100 * $rate{$name} / $rate{healthy});
}
no_server_crashed($node);
done_testing();

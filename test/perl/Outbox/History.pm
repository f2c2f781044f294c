# The judge of invariants 1 to 4 (docs/how-it-works.md): compares what was committed, what the log says, what is parked and
# what consumers read. Knows no server and no broker: hand it the histories. test/t/091_history_checker.pl shows that each
# verdict can be reached.
#
#   intent    { id, key, n, payload, topic }   committed, as the writers' own table has them. Events of one key were emitted
#                                              under a row lock and numbered from it: n is the order of their commits. No
#                                              order without key.
#   observed  { id, key, payload, topic, place, bytes }
#                                              in the order of arrival; place: what order is promised within (a partition, a
#                                              stream); bytes: every field of the record as one string
#
# Verdicts: lost, phantom, order, duplicate (where none is allowed), bytes (differs from what was committed, or a repeat from
# its first), log (the log and the intents disagree), parked (for no reason that is an event's own).
package Outbox::History;

use strict;
use warnings;

sub new
{
	my ($class, $intents) = @_;
	my %by_id = map { $_->{id} => $_ } @$intents;
	return bless { intents => \%by_id }, $class;
}

# Every violation of one destination, as { kind, text }. %how: duplicates => 1 where a fault allows repeats; parked =>
# { id => error class }: not expected to have arrived; %how{count} gets { arrived, repeats }.
sub judge
{
	my ($self, $observed, %how) = @_;
	my $intents = $self->{intents};
	my $parked = $how{parked} // {};
	my (@bad, %first, %last, $repeats);
	$repeats = 0;
	my $blame = sub { push @bad, { kind => $_[0], text => $_[1] }; return };
	foreach my $record (@$observed)
	{
		my $id = $record->{id};
		my $intent = $intents->{$id};
		if (!$intent)
		{
			$blame->('phantom', "$id, key " . show($record->{key}) . ", payload " . show($record->{payload}));
			next;
		}
		if (exists $first{$id})
		{
			$repeats++;
			$blame->('duplicate', "$id, " . describe($intent)) if !$how{duplicates};
			$blame->('bytes', "$id arrived twice, not the same: $first{$id} and $record->{bytes}") if $first{$id} ne $record->{bytes};
			next;
		}
		$first{$id} = $record->{bytes};
		foreach my $field (qw(key payload topic))
		{
			$blame->('bytes', "$id: $field is " . show($record->{$field}) . ', emitted was ' . show($intent->{$field}))
			  if show($record->{$field}) ne show($intent->{$field});
		}
		next if !defined $intent->{key};
		my $line = "$record->{place}\0$intent->{topic}\0$intent->{key}";
		my $before = $last{$line};
		$blame->('order', "$intent->{topic}: " . describe($intent) . " first arrived after $before") if defined $before && $before > $intent->{n};
		$last{$line} = $intent->{n} if !defined $before || $before < $intent->{n};
	}
	foreach my $id (sort keys %$intents)
	{
		next if exists $first{$id};
		if (!exists $parked->{$id}) { $blame->('lost', "$id, " . describe($intents->{$id})) }
		elsif ($parked->{$id} ne 'message') { $blame->('parked', "$id for a reason of class $parked->{$id}") }
	}
	%{ $how{count} } = (arrived => scalar keys %first, repeats => $repeats) if $how{count};
	return @bad;
}

# The log holds exactly the committed intents: the event exists if and only if the transaction committed.
sub judge_log
{
	my ($self, $log_ids) = @_;
	my %log;
	$log{$_}++ foreach @$log_ids;
	my @bad;
	foreach my $id (sort keys %{ $self->{intents} }) { push @bad, { kind => 'log', text => "$id committed and is not in the log" } if !$log{$id} }
	foreach my $id (sort keys %log)
	{
		push @bad, { kind => 'log', text => "$id is in the log and nobody committed it" } if !$self->{intents}{$id};
		push @bad, { kind => 'log', text => "$id is in the log $log{$id} times" } if $log{$id} > 1;
	}
	return @bad;
}

sub show { my ($text) = @_; return !defined $text ? 'NULL' : "'" . (length $text > 80 ? substr($text, 0, 77) . '...' : $text) . "'" }
sub describe { my ($intent) = @_; return 'key ' . show($intent->{key}) . " number $intent->{n}" }

1;

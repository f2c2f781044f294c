# A ledger that proves invariants 1 to 4: business transactions number the events of each key under a row lock, so that
# what a consumer reads of a key must be 1, 2, 3, ... up to the number in the table, whatever crashed in between.
# Events of savepoints and transactions that roll back say so in their payload, and must never be seen.
package Outbox::Ledger;

use strict;
use warnings;

use IPC::Run ();
use Test::More;

our $KEYS = 1000;
our $KEYS_PER_TRANSACTION = 20;

# Tables and functions of the ledger in database postgres.
sub install
{
	my ($node) = @_;
	my $step = $KEYS / $KEYS_PER_TRANSACTION;
	$node->safe_psql('postgres', <<"SQL");
CREATE TABLE ledger (key bigint PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 50);
INSERT INTO ledger SELECT key, 0 FROM generate_series(0, @{[$KEYS - 1]}) key;
-- One business transaction: for each of its keys, in ascending order, `events` events that stay, and now and then a
-- savepoint that rolls back. Every third event is emitted inside a savepoint that stays.
CREATE FUNCTION business(events integer) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
  k bigint := floor(random() * $step);
  base bigint;
BEGIN
  WHILE k < $KEYS LOOP
    SELECT n INTO base FROM ledger WHERE key = k FOR UPDATE;
    IF random() < 0.1 THEN
      BEGIN
        PERFORM outbox.emit_text('order', k, 'counted', k || ' phantom');
        RAISE division_by_zero;
      EXCEPTION WHEN division_by_zero THEN NULL;
      END;
    END IF;
    FOR i IN 1 .. events LOOP
      IF i % 9 = 3 THEN
        BEGIN
          PERFORM outbox.emit_text('order', k, 'counted', k || ' ' || base + i);
        EXCEPTION WHEN division_by_zero THEN NULL;
        END;
      ELSE
        PERFORM outbox.emit_text('order', k, 'counted', k || ' ' || base + i);
      END IF;
    END LOOP;
    UPDATE ledger SET n = base + events WHERE key = k;
    k := k + $step;
  END LOOP;
END \$\$;
SQL
	return;
}

# Starts pgbench in the background: one transaction in seven rolls back. %how: transactions or seconds, clients,
# events (per key), rate. Returns a handle for finish().
sub start_load
{
	my ($node, %how) = @_;
	my $script = $node->basedir . '/load-' . ($how{name} // 'x') . '.pgbench';
	open my $file, '>', $script or die "$script: $!";
	print $file "\\set dice random(1, 7)\nBEGIN;\nSELECT business(@{[$how{events} // 5]});\n"
	  . "\\if :dice = 1\nROLLBACK;\n\\else\nCOMMIT;\n\\endif\n";
	close $file;
	my $clients = $how{clients} // 2;
	my @command = ('pgbench', '-n', '-M', 'prepared', '-c', $clients, '-j', $clients, '-f', $script,
		'-h', $node->host, '-p', $node->port,
		($how{seconds} ? ('-T', $how{seconds}) : ('-t', int($how{transactions} / $clients))),
		($how{rate} ? ('-R', $how{rate}) : ()), 'postgres');
	my $output = '';
	my $load = { output => \$output };
	$load->{handle} = IPC::Run::start(\@command, '<', \undef, '>&', \$output);
	return $load;
}

# Waits for the load to end; with may_fail it may have lost its server.
sub finish
{
	my ($load, %how) = @_;
	my $ok = $load->{handle}->finish;
	return 1 if $ok || $how{may_fail};
	diag(${ $load->{output} });
	return 0;
}

# Ends a load that would run longer; true when no session has met an error until then.
sub end_load
{
	my ($load) = @_;
	return 0 if !$load->{handle}->pumpable;
	$load->{handle}->signal('TERM');
	$load->{handle}->finish;
	return 1 if ${ $load->{output} } !~ /error|aborted|FATAL/i;
	diag(${ $load->{output} });
	return 0;
}

# Number of events that the ledger says there are.
sub total
{
	my ($node) = @_;
	return $node->safe_psql('postgres', 'SELECT sum(n) FROM ledger');
}

# Compares payloads in the order of arrival with the ledger. With duplicates => 1 repeats of what was seen before are
# allowed: then the first occurrences must be in order. Three tests, named after $what.
sub check
{
	my ($node, $what, $payloads, %how) = @_;
	my (%last, @strange, $repeats);
	$repeats = 0;
	foreach my $payload (@$payloads)
	{
		my ($key, $n) = $payload =~ /^(\d+) (\d+)$/;
		if (!defined $key)
		{
			push @strange, "phantom or foreign: '$payload'";
			next;
		}
		my $last = $last{$key} //= 0;
		if ($n == $last + 1) { $last{$key} = $n }
		elsif ($n <= $last) { $repeats++ }
		else { push @strange, "key $key: $n after $last"; $last{$key} = $n }
	}
	my @missing;
	my $total = 0;
	foreach my $row (split /\n/, $node->safe_psql('postgres', 'SELECT key, n FROM ledger ORDER BY key'))
	{
		my ($key, $n) = split /\|/, $row;
		$total += $n;
		push @missing, "key $key: " . ($last{$key} // 0) . " of $n" if ($last{$key} // 0) != $n;
	}
	my $ok = is(scalar @missing, 0, "$what: all $total events arrived and no more");
	diag(join "\n", grep { defined } @missing[ 0 .. 4 ]) if !$ok;
	$ok = is(scalar @strange, 0, "$what: in order per key, nothing that was rolled back");
	diag(join "\n", grep { defined } @strange[ 0 .. 4 ]) if !$ok;
	if ($how{duplicates}) { note("$what: $repeats repeats of " . scalar @$payloads) }
	else { is($repeats, 0, "$what: nothing twice") }
	return $repeats;
}

1;

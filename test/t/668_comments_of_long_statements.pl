# outbox.trace_from_comment costs a long statement that emits many events no more than a few: its comment is looked for once.
# matrix: H12
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $session = $node->background_psql('postgres', on_error_stop => 1, timeout => 300);
$session->query_safe(q{SET outbox.lone_emit = allow});
my ($pid) = $session->query_safe('SELECT pg_backend_pid()') =~ /(\d+)/;
# Seconds of CPU that the session has used; others use the machine as well.
sub cpu { return eval { my @field = split ' ', slurp_file("/proc/$pid/stat"); ($field[13] + $field[14]) / 100 } }

# 16,000 events by a statement of 16 MB: to look for its end for each of them would be 256 GB.
my $traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
my $file = $node->basedir . '/statement.sql';
append_to_file($file, q{SELECT count(outbox.emit('o', n::text, 'e', '{}')) FROM generate_series(1, 16000) n WHERE } . "'" . ('x' x 16_000_000) . "' <> '' /*traceparent='$traceparent'*/;\n");
my %took;
foreach my $setting (qw(off on off on))
{
	$session->query_safe("SET outbox.trace_from_comment = $setting");
	my $before = cpu();
	$session->query_safe("\\i $file\n");
	push @{ $took{$setting} }, cpu() - $before;
}
my ($off) = sort { $a <=> $b } @{ $took{off} };
my ($on) = sort { $a <=> $b } @{ $took{on} };
note "off: @{ $took{off} } s, on: @{ $took{on} } s";
cmp_ok($on, '<', 2 * $off + 0.3, 'it takes no time that counts');
is($node->safe_psql('postgres', qq{SELECT headers ->> 'traceparent', count(*) FROM outbox_internal.whole_log GROUP BY 1 ORDER BY 1}), "$traceparent|32000\n|32000", 'and all have it');
$session->quit;

# Each statement has its own, also in one transaction and by the protocol of parameters, whichever text came to the place of another.
my $script = $node->basedir . '/two.sql';
my $pad = 'x' x 20_000;
append_to_file($script, "BEGIN;\n" . join('', map { "SELECT outbox.emit('two', '$_', 'e', '{}') WHERE '$pad' <> '' /*traceparent='00-${_}bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/;\n" } 1 .. 4) . "COMMIT;\n");
foreach my $mode (qw(simple extended prepared))
{
	local $ENV{PGOPTIONS} = '-c outbox.trace_from_comment=on -c outbox.lone_emit=allow';
	$node->command_ok([ 'pgbench', '-n', '-M', $mode, '-t', '25', '-f', $script, '-p', $node->port, '-h', $node->host, 'postgres' ], "$mode: emitted");
}
is($node->safe_psql('postgres', q{SELECT count(*), count(*) FILTER (WHERE substr(headers ->> 'traceparent', 4, 1) = aggregate_id) FROM outbox_internal.whole_log WHERE aggregate_type = 'two'}),
	'300|300', 'each event has the comment of its statement');
no_server_crashed($node);
done_testing();

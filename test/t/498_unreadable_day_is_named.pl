# A page of one day of the log cannot be read: status() of an event of another day, or of a parked one, tells what there is, and names
# the table that it could not look into; where nothing is found, the error does. replay() names it, too, and sends what is of other times.
# matrix: M4
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
# Its rows, and what it says beside them.
sub answer
{
	my ($query) = @_;
	my ($out, $err) = ('', '');
	$node->psql('postgres', $query, stdout => \$out, stderr => \$err);
	return ($out, $err);
}
sub status { my ($id) = @_; return answer("SELECT route, state FROM outbox.status('$id')") }
my $own = '3f2a6f0e-6f0c-4c5e-9c39-2b8f6f1d0c11';    # says no time
sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'n')));
my $first = sql(q(SELECT outbox.emit('o', 'a', 'e', '{}')));
my $later = sql(q(SELECT outbox.emit('o', 'b', 'e', '{}', deliver_at => now() + interval '10 days')));
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '1', 60), 'an event is parked');
ok(wait_idle($node), 'another is delivered');
Outbox::Faults::shift_clock(86_400 * 1_000_000);
my $table = sql("SELECT tableoid::regclass FROM outbox_internal.log WHERE id = '$first'");
ok($node->poll_query_until('postgres', qq(SELECT outbox.emit('o', 'c', 'e', '{}') IS NOT NULL AND EXISTS (SELECT FROM outbox_internal.log WHERE tableoid <> '$table'::regclass))), 'another day begins');
my $second = sql(q(SELECT outbox.emit('o', 'c', 'e', '{}')));
sql("INSERT INTO outbox.event (id, aggregate_type, aggregate_id, event_type, payload) VALUES ('$own', 'o', 'c', 'e', '{}')");
isnt(sql("SELECT tableoid::regclass FROM outbox_internal.log WHERE id = '$own'"), $table, 'with an event whose id says no time');
ok(wait_idle($node), 'they are delivered');
my $since = sql(q(SELECT date_trunc('day', max(created_at) AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' FROM outbox_internal.log));
my $matched = sql(qq(SELECT count(*) FROM outbox_internal.log WHERE created_at >= '$since')) + 0;

my $path = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$table')");
$node->stop;
open(my $file, '+<', $path) or die $!;
print $file 'X' x 24;    # the header of its page
close($file);
$node->start;

my ($out, $said) = status($second);
is("$out$said", 'r|delivered', 'what is told of an event of another day');
($out, $said) = status($own);
is($out, 'r|delivered', 'and of one that has to be looked for in all of them');
like($said, qr/WARNING:  not all of what is known of the event may be told: \Q$table\E cannot be read\nDETAIL:  \Q$table\E: invalid page.*\nHINT:  A page or a file/, 'with the table that cannot be read');
($out, $said) = status($later);
is($out, 'r|scheduled', 'what is told of a parked event of that day');
like($said, qr/WARNING:  .*: \Q$table\E cannot be read\n/, 'with the same');
($out, $said) = status($first);
is($out, '', 'of a delivered one of that day nothing is known');
like($said, qr/ERROR:  what became of the event cannot be told: \Q$table\E cannot be read\nDETAIL:  \Q$table\E: invalid page.*\nHINT:  A page or a file/, 'the error names the table, too');

($out, $said) = answer(q(CALL outbox.replay('-infinity', route => 'r')));
like($said, qr/ERROR:  the events to be sent again cannot all be read: \Q$table\E cannot\nDETAIL:  \Q$table\E: invalid page.*\nHINT:  since and until .* A page or a file/, 'replay() names it');
($out, $said) = answer(qq(CALL outbox.replay('$since', route => 'r')));
like($said, qr/NOTICE:  dry run: would send $matched events of route "r" again/, 'and has what is of other days');
no_server_crashed($node);
done_testing();

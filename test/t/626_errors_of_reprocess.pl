# reprocess() whose statement ends with an error says from which table, in a line or two, and not all that it does. It takes back as ever: each
# event once, however many marks it has.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 0\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub said { my ($code, $out, $err) = $node->psql('postgres', $_[0]); return $err }

# An event that was accepted late has marks in three tables, one of today in one.
my $late = '019a2c5e-7d1f-7000-8000-000000000000';
sql(qq(SET outbox.inbox_expired = 'accept'; SELECT outbox.receive('c', '$late')));
my $id = sql(q(SELECT outbox.emit('o', 'k', 'e', '1')));
sql(qq(SELECT outbox.receive('c', '$id'), outbox.receive('other', '$id'), outbox.receive('c', gen_random_uuid())));
my $marks = sql(q(SELECT sum(rows) FROM outbox.received WHERE consumer = 'c'));

my $locker = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
foreach my $table (qw(inbox_day_00 inbox_day_31 inbox_undated_a inbox_undated_b))
{
	$locker->query_safe("BEGIN; LOCK TABLE outbox_internal.$table IN SHARE MODE");
	my $err = said(q(SET lock_timeout = '100 ms'; SELECT outbox.reprocess('c', '-infinity')));
	like($err, qr/canceling statement due to lock timeout/, "$table is locked: an error");
	like($err, qr/\b$table\b/, 'which names the table');
	cmp_ok(length $err, '<', 1000, 'and is short');
	$locker->query_safe('COMMIT');
}
$locker->quit;
is(sql(q(SELECT sum(rows) FROM outbox.received WHERE consumer = 'c')), $marks, 'nothing was taken back');

my ($code, $out, $err) = $node->psql('postgres', q(SELECT outbox.reprocess('c', '-infinity')));
is($out, '2', 'two events are');
like($err, qr/1 event that was taken back is older than what the inbox remembers/, 'one of them is old');
is(sql(q(SELECT sum(rows) FROM outbox.received WHERE consumer = 'c')), '2', 'what has no time stays, in both tables');
is(sql(q(SELECT sum(rows) FROM outbox.received WHERE consumer = 'other')), '1', 'and what another has handled');
is(sql(qq(SELECT outbox.receive('c', '$id'))), 't', 'it is handled again');

no_server_crashed($node);
done_testing();

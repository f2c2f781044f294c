# The file of a day that is gone for good can be got rid of: what would lose events is refused with what to do, as nobody knows how
# many there are, and outbox.allow_loss lets it through with a WARNING that says so; so does drop_route(). What has to read the day
# fails with a HINT. Without the day everything goes on.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('r'));
$node->safe_psql('postgres', q(SELECT outbox.create_route('s', server => 'r', topic => 's')));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub said { my ($query) = @_; my $err = ''; $node->psql('postgres', $query, stderr => \$err); return $err }

sql(q(SELECT outbox.pause(r, reason => 'to have a backlog') FROM unnest(ARRAY['r', 's']) r));
sql(q(SELECT count(outbox.emit_text('order', i::text, 'e', 'x')) FROM generate_series(1, 50) i));
my $table = sql(q(SELECT tableoid::regclass FROM outbox_internal.log LIMIT 1));
my $path = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$table')");
$node->stop;
unlink $path or die $!;
$node->start;

my $unknown = qr/How many is not known, because not all can be read: could not open file .* \(58P01\)\./;
foreach my $command ("DROP TABLE $table", "TRUNCATE $table", "ALTER TABLE outbox_internal.log DETACH PARTITION $table", 'DROP EXTENSION outbox CASCADE', q(DELETE FROM outbox.route))
{
	like(said($command), qr/ERROR:  cannot .* because events may be undelivered\nDETAIL:  $unknown\nHINT:  A page or a file .*SET outbox\.allow_loss = on\./, "refused: $command");
	like(said("BEGIN; SET LOCAL outbox.allow_loss = on; $command; ROLLBACK"), qr/\A(?!.*ERROR).*WARNING:  undelivered events are lost\nDETAIL:  $unknown/s, '... and let through');
}
like(said(q(CALL outbox.forget('order', '1', undelivered => true, dry_run => false))), qr/could not open file.*HINT:  A page or a file of a table or of an index cannot be read/s, 'forget() says what to do');
like(said(q(SELECT outbox.alter_route('s', aggregate_types => '{other}'))), qr/\A(?!.*ERROR).*NOTICE:  it is not known how many events that wait route "s" no longer wants\nDETAIL:  Because the log cannot be read/s, 'a route is changed');
like(said(q(SELECT outbox.drop_route('s'))), qr/\A(?!.*ERROR).*NOTICE:  it is not known how many events route "s" leaves unsent in the log\nDETAIL:  Because the log cannot be read/s, 'and dropped');

sql("SET outbox.allow_loss = on; DROP TABLE $table");
like(sql(q(SELECT detail ->> 'lost' FROM outbox.audit WHERE action = 'allow_loss')), $unknown, 'the audit says it, too');
sql(q(SELECT outbox.resume('r')));
sql(q(SELECT outbox.emit_text('order', '1', 'e', 'after')));
ok(wait_until(sub { $redis->xlen('r') >= 1 && $redis->column('r', 'payload')->[-1] eq 'after' }, 60), 'without the day events flow');
no_server_crashed($node);
done_testing();

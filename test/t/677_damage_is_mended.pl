# What docs/when-things-go-wrong.md says of damage that zero_damaged_pages does not mend: an index of a day is made again and nothing is
# lost; of a page of large payloads the events are found and taken out, and all others are delivered. replay() says what it cannot read.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\nautovacuum = off\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'well', topic => q('well'));
$node->safe_psql('postgres', q(SELECT outbox.create_route('hurt', server => 'well', topic => 'hurt')));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub path_of { my ($table) = @_; return $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$table')") }
sub damage
{
	my ($path, @blocks) = @_;
	$node->stop;
	open(my $file, '+<', $path) or die $!;
	for my $block (@blocks)
	{
		seek($file, $block * 8192, 0);
		print $file 'X' x 24;    # its header
	}
	close($file);
	$node->start;
}
sub said
{
	my ($query) = @_;
	my ($out, $err) = ('', '');
	$node->psql('postgres', $query, stdout => \$out, stderr => \$err);
	return $err;
}
my $trouble = q(SELECT error_code FROM outbox.lag WHERE route = 'hurt');

# --- an index ---
sql(q(SELECT outbox.pause('hurt', reason => 'to have a backlog')));
emit_counted($node, 'order', [ 'a', 'b' ], 1, 200);
my $table = sql(q(SELECT log_table FROM outbox.day WHERE rows > 0 ORDER BY rows DESC LIMIT 1));
my $path = path_of("${table}_xid");
damage($path, 1 .. (-s $path) / 8192 - 1);
sql(q(SELECT outbox.resume('hurt')));
ok(wait_for_value($node, $trouble, 'XX001', 60), 'a lane that needs an index is in trouble');
ok(wait_until(sub { slurp_file($node->logfile) =~ /HINT:  A page or a file of a table or of an index cannot be read\. .*REINDEX INDEX/ }, 60), "the server's log says what to do of an index");
my ($number) = sql(q(SELECT error_message FROM outbox.lag WHERE route = 'hurt')) =~ m{base/\d+/(\d+)};
is(sql("SELECT pg_filenode_relation(0, $number)"), "${table}_xid", 'its number has a name');
sql("REINDEX INDEX ${table}_xid");
ok(wait_until(sub { $redis->xlen('hurt') == 400 }, 60), 'and all is delivered after REINDEX INDEX') or diag($redis->xlen('hurt') . ' ' . sql('SELECT * FROM outbox.lag'));

# --- large payloads ---
sql(q(SELECT outbox.pause('hurt', reason => 'to have a backlog')));
sql(q(SELECT outbox.emit_text('order', 'c' || n, 'large', (SELECT string_agg(md5(n::text || m), '') FROM generate_series(1, 300) m)) FROM generate_series(1, 12) n));
ok(wait_until(sub { $redis->xlen('well') == 412 }, 60), 'another route delivers large payloads');
my $large = sql(q(SELECT tableoid::regclass FROM outbox_internal.log WHERE event_type = 'large' LIMIT 1));
my $toast = sql("SELECT reltoastrelid::regclass FROM pg_class WHERE oid = '$large'::regclass");
damage(path_of($toast), 3);
sql(q(SELECT outbox.resume('hurt')));
ok(wait_for_value($node, $trouble, 'XX001', 60), 'a lane that needs a large payload is in trouble');
sql('ALTER SYSTEM SET zero_damaged_pages = on; SELECT pg_reload_conf()');
ok(wait_until(sub { sql(q(SELECT error_message FROM outbox.lag WHERE route = 'hurt')) =~ /missing chunk/ }, 60), 'and zero_damaged_pages does not mend that');
sql('ALTER SYSTEM RESET zero_damaged_pages; SELECT pg_reload_conf()');
like(said(q(CALL outbox.replay('-infinity', route => 'well', dry_run => false))), qr/ERROR:  the events to be sent again cannot all be read: \Q$large\E cannot\nDETAIL:  .*\nHINT:  since and until .* A page or a file/, 'replay() names the table, too');
my $find = slurp_file("$ENV{OUTBOX_TOP}/docs/when-things-go-wrong.md") =~ /(DO \$\$.*?^\$\$;)/ms ? $1 : die 'the page has no block';
$find =~ s/outbox_internal\.log_20261122/$large/g;
my @bad = said($find) =~ /NOTICE:  (\(\d+,\d+\)) [0-9a-f-]{36} /g;
ok(@bad >= 1 && @bad < 12, 'the page finds the events, which are some') or diag(said($find));
my $places = join(', ', map { "'$_'" } @bad);
sql("SET zero_damaged_pages = on; SET outbox.allow_loss = on; DELETE FROM $large WHERE ctid IN ($places)");
ok(wait_until(sub { $redis->xlen('hurt') == 412 - @bad }, 60), 'without them the others are delivered') or diag($redis->xlen('hurt') . ' ' . sql('SELECT * FROM outbox.lag'));
is(said($find), '', 'and nothing else is damaged');
no_server_crashed($node);
done_testing();

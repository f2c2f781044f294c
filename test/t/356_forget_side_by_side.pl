# Several outbox.forget() of different keys whose rows lie in the same pages: they erase one after the other, in the log and in
# what it keeps out of line, and none waits for another that waits for the same page.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 0\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
my @keys = qw(one two three);
sql(q(SELECT count(outbox.emit('person', k, 'e', format('{"of": "%s"}', k)::jsonb)) FROM generate_series(1, 20) i, unnest('{one,two,three}'::text[]) k));
my $table = sql(q(SELECT tableoid::regclass FROM outbox_internal.log LIMIT 1));

# A reader stands in the first page, which has rows of all, until each waits for it.
my $reader = $node->background_psql('postgres', on_error_stop => 1);
$reader->query_safe('BEGIN');
$reader->query_safe("DECLARE c CURSOR FOR SELECT ctid FROM $table");
$reader->query_safe('FETCH 1 FROM c');
my @calls;
foreach my $key (@keys)
{
	my %call = (key => $key, out => '');
	$call{run} = IPC::Run::start([ 'psql', '-XAtqd', $node->connstr('postgres'), '-c', "CALL outbox.forget('person', '$key', dry_run => false)" ],
		'<', \undef, '>&', \$call{out}, IPC::Run::timeout(120));
	push @calls, \%call;
}
ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL outbox.forget%' AND wait_event_type = 'Extension'), 3), 'three wait for the page');
$reader->query_safe('COMMIT');
$reader->quit;
foreach my $call (@calls)
{
	$call->{run}->finish;
	like($call->{out}, qr/^20\|0$/m, "$call->{key}: twenty events are erased");
}
is(sql(q(SELECT count(*) FROM outbox_internal.log WHERE payload <> '')), '0', 'nothing of them is left');
no_server_crashed($node);
done_testing();

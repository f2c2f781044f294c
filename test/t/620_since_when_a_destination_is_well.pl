# A destination that two workers use is well since the last of them has it so, and down since the first failure that one of them saw.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\noutbox.workers = 2\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('s'), lanes => 4);
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub both { my ($state) = @_; return wait_for_value($node, q(SELECT (SELECT count(*) FROM outbox.worker WHERE kind = 'relay' AND lanes > 0) || ' ' || workers || ' ' || state FROM outbox.destination), "2 2 $state", 60) }
sql(q(SELECT count(outbox.emit_text('a', n::text, 'e', 'x')) FROM generate_series(1, 20) n));
ok(wait_idle($node) && both('closed'), 'two workers send there');

my @relays = sort { $a <=> $b } split /\n/, sql(q(SELECT pid FROM outbox.worker WHERE kind = 'relay'));
foreach my $relay (@relays)
{
	sql("SELECT pg_terminate_backend($relay)");
	ok(wait_for_value($node, "SELECT count(*) FROM outbox.worker WHERE kind = 'relay' AND pid = $relay", '0', 60) && both('closed'), 'another worker takes the place of one');
	is(sql(q(SELECT since >= (SELECT max(w.since) FROM outbox.worker w WHERE w.kind = 'relay') FROM outbox.destination)), 't', 'well since the later of them uses it')
	  or diag(sql('SELECT state, since FROM outbox.destination; SELECT kind, pid, since FROM outbox.worker'));
}
no_server_crashed($node);
$node->stop;
done_testing();

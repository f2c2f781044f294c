# replay(ids => ...) of a thousand ids costs about what one of all events costs, not a thousand times as much.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', $_[0]) }
sql(q(CREATE SERVER n FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('r', server => 'n')));
sql(q(SELECT count(outbox.emit('o', i::text, 'e', '1')) FROM generate_series(1, 10000) i));
ok(wait_idle($node), 'delivered');
my $ids = sql('SELECT array_agg(id) FROM (SELECT id FROM outbox_internal.log ORDER BY created_at LIMIT 1000) x');
my $all = backend_seconds($node, q(CALL outbox.replay(since => '-infinity', route => 'r')));
my $some = backend_seconds($node, qq(CALL outbox.replay(since => '-infinity', ids => '$ids', route => 'r')));
cmp_ok($some, '<', 10 * $all + 0.2, "a thousand of them: $some s of CPU, all: $all s");
like(($node->psql('postgres', qq(CALL outbox.replay(since => '-infinity', ids => '$ids', route => 'r'))))[2], qr/would send 1000 events/, 'the thousand, and no others');
done_testing();

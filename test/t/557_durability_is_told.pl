# fsync = off: what was published may be gone with the machine, so doctor() warns, with what mends it; full_page_writes = off is right on some
# file systems, and is told without a warning.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(conf => "fsync = on\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub told { return sql(q{SELECT status || '|' || detail || '|' || coalesce(hint, '') FROM outbox.doctor() WHERE "check" = 'durability'}) }
sub set_to { my ($name, $value) = @_; sql("ALTER SYSTEM SET $name = $value"); sql('SELECT pg_reload_conf()'); return wait_for_value($node, "SHOW $name", $value) }

is(told(), 'ok|fsync and full_page_writes are on.|', 'all is well');
ok(set_to('full_page_writes', 'off'), 'pages are not written whole');
like(told(), qr/^ok\|fsync is on\. full_page_writes is off: .*ZFS/, 'which is said');
ok(set_to('fsync', 'off'), 'nothing is flushed');
like(told(), qr/^warning\|fsync is off: .*published.*\|.*ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf\(\);$/, 'which is warned of');
is(sql('SELECT outbox.doctor_ok()'), 'f', 'and is not well');
sql($_) foreach 'ALTER SYSTEM SET fsync = on', 'ALTER SYSTEM SET full_page_writes = on', 'SELECT pg_reload_conf()';
ok(wait_for_value($node, "SELECT current_setting('fsync') || current_setting('full_page_writes')", 'onon'), 'mended');
is(told(), 'ok|fsync and full_page_writes are on.|', 'nothing is said any more');
no_server_crashed($node);
done_testing();

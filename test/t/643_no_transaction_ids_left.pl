# The server hands out no transaction ids any more (to avoid wraparound): what is delivered cannot be noted, and doctor() and the log say what to do.
# matrix: B17
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\nautovacuum = off\nwal_level = logical\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', @_) }
redis_route($node, $redis, 'r', topic => q('s'));
sql(q(SELECT outbox.emit('t', 'k', 'before', '1')));
ok(wait_idle($node), 'delivered');
# Autovacuum, which comes to the rescue also where it is off, cannot freeze the catalogs past that.
sql(q(SELECT pg_create_logical_replication_slot('old', 'pgoutput')));
my $stop = sql('SELECT min(datfrozenxid::text::bigint) FROM pg_database') + 2**31 - 3_000_000;
$node->stop('fast');
my $segment = sprintf '%s/pg_xact/%04X', $node->data_dir, int($stop / 2**20);
open my $file, '>', $segment or die "$segment: $!";
print $file "\0" x (256 * 1024);
close $file;
command_ok([ 'pg_resetwal', '-f', '-x', $stop - 2000, '-D', $node->data_dir ], 'few are left');
$node->start;

my $open = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$open->query_safe('SET client_min_messages = error');    # each id that is handed out comes with a warning
$open->query_safe(q(BEGIN; SELECT outbox.emit('t', 'k', 'open', '1')));
ok(wait_until(sub { my ($rc, $out, $err) = $node->psql('postgres', join '', map { 'SELECT pg_current_xact_id();' } 1 .. 500); return ($err // '') =~ /to avoid wraparound data loss/ }), 'and then none');
$open->query_safe('COMMIT');
ok(wait_until(sub { $redis->xlen('s') == 2 }), 'what was open is delivered');
ok(wait_for_value($node, q(SELECT concat_ws(' ', error_class, error_code) FROM outbox.lag), 'internal 54000', 60), 'and cannot be noted');
like(sql(q(SELECT detail || hint FROM outbox.doctor() WHERE "check" = 'lane' AND status = 'problem')),
	qr/54000: .*prepared transactions.*replication slots.*VACUUM.*age\(datfrozenxid\).*is sent again/, 'doctor() says what to do');
ok(wait_until(sub { slurp_file($node->logfile) =~ /is in trouble: .*wraparound.*HINT:  Where the server takes no commands to avoid wraparound/s }), "the server's log, too");
$open->quit;
no_server_crashed($node);
done_testing();

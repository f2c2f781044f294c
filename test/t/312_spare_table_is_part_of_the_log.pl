# Events whose day has no table are in the spare table, and are events like all others there: forget() erases them,
# reset_clock() waits for who has emitted, doctor() tells who may read them.
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use Test::More;

# The launcher has the only slot there is, so no day gets a table.
my $node = new_node(conf => "max_worker_processes = 1\nmax_logical_replication_workers = 0\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub with_payload { my ($key) = @_; return sql("SELECT count(*) FROM outbox_internal.log_spare WHERE aggregate_id = '$key' AND octet_length(payload) > 0") }
sub on_disk { my ($text) = @_; sql('CHECKPOINT'); return sql("SELECT position('$text'::bytea IN pg_read_binary_file(pg_relation_filepath('outbox_internal.log_spare'))) > 0") }

sql(q{SELECT outbox.emit('person', k, 'changed', to_jsonb(k || '-S3CRET'), jsonb_build_object('who', k || '-S3CRET')) FROM unnest('{anna,bert,carl}'::text[]) k});
is(sql('SELECT count(*), count(*) FILTER (WHERE octet_length(payload) > 0) FROM outbox_internal.log_spare'), '3|3', 'three events without a day table');

# --- who may read them
sql('CREATE ROLE reader');
is(sql(q{SELECT count(*) FROM outbox.doctor() WHERE "check" = 'rights' AND detail ~ 'log_spare'}), 0, 'nobody but the owner may read them');
sql('GRANT SELECT ON outbox_internal.log_spare TO reader');
like(sql(q{SELECT detail FROM outbox.doctor() WHERE "check" = 'rights'}), qr/log_spare/, 'doctor() tells of one who may');
sql('REVOKE SELECT ON outbox_internal.log_spare FROM reader; DROP ROLE reader');

# --- erasing
is(on_disk('anna-S3CRET'), 't', 'they are on disk');
is(sql(q{CALL outbox.forget('person', 'anna')}), '1|0', 'a dry run finds the event');
is(sql(q{CALL outbox.forget('person', 'anna', dry_run => false)}), '1|0', 'erased, it says');
is(with_payload('anna'), 0, 'and is');
is(on_disk('anna-S3CRET'), 'f', 'on disk, too');
is(with_payload('bert') + with_payload('carl'), 2, 'those of others are not');

# --- of what is undelivered
redis_route($node, $redis, 'r', start => q('earliest'));
like(sql(q{CALL outbox.forget('person', 'bert', dry_run => false)}), qr/^0\|1\|?/, 'undelivered, it is kept');
is(with_payload('bert'), 1, 'with its payload');
sql(q{CALL outbox.forget('person', 'bert', undelivered => true, dry_run => false)});
is(with_payload('bert'), 0, 'or given up and erased when asked for');

# --- the clock is not put back under a transaction that has emitted there
my $open = $node->background_psql('postgres', on_error_stop => 1);
$open->query_safe('BEGIN');
$open->query_safe(q{SELECT outbox.emit('person', 'dora', 'changed', '1')});
# A day ahead, until an event has been dated so.
Outbox::Faults::shift_clock(86_400 * 1_000_000);
$node->poll_query_until('postgres', q{SELECT outbox.emit('person', 'else', 'changed', '1') IS NOT NULL AND max(created_at) > now() + interval '20 hours' FROM outbox_internal.log_spare})
	or BAIL_OUT('the clock was not followed');
Outbox::Faults::shift_clock(0);
like(($node->psql('postgres', 'SELECT outbox.reset_clock(force => true)'))[2], qr/A transaction that has emitted, or may be about to, is under way: process \d+/,
	'the clock waits for who has emitted');
$open->query_safe('COMMIT');
$open->quit;
like(sql('SELECT outbox.reset_clock(force => true)'), qr/^(1 day|2[34]:)/, 'and goes back without it');

# --- and what is left is delivered
$node->append_conf('postgresql.conf', "max_worker_processes = 8\n");
$node->restart;
ok(wait_idle($node), 'with workers');
my @keys = sort @{ $redis->column('outbox.event.person', 'key') };
ok(!(grep { $_ eq 'bert' } @keys), 'what was given up is not sent');
ok((grep { $_ eq 'carl' } @keys) == 1 && (grep { $_ eq 'dora' } @keys) == 1, "what was not is (@keys)");
no_server_crashed($node);
done_testing();

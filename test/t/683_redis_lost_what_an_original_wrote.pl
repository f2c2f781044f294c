# A Redis loses its data after a dump was adopted: what the copy wrote comes again by itself, and it is said that what the
# original had written there does not, of its log and of what it had parked. seek() then sends all of it, and answers for it: it
# comes again by itself after the next loss, and nothing is said to be missing. Where the original wrote elsewhere, nothing is.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my %redis = map { $_ => Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]) } qw(here other);
my $node = new_node(conf => "max_worker_processes = 24\noutbox.lone_emit = allow\n");
redis_route($node, $redis{here}, 'r', topic => q('r'), lanes => 2);
redis_route($node, $redis{here}, 'away', topic => q('away'));
my $db = 'postgres';
sub sql { my ($query) = @_; return $node->safe_psql($db, $query) }
sub emit { my ($count, $type, $due) = @_; return sql(join '', map { "SELECT outbox.emit('o', '$type$_', '$type', '{}'" . ($due // '') . ");\n" } 1 .. $count) }
sub there { my ($at, $stream) = @_; my %seen; $seen{ $_->{type} }++ foreach @{ $redis{$at}->entries($stream) }; return join ' ', map { "$_ $seen{$_}" } sort keys %seen }
sub comes { my ($at, $stream, $want, $what) = @_; return ok(wait_until(sub { there($at, $stream) eq $want }, 60), "$what: $want") || diag(there($at, $stream)) }
sub idle { return is(sql(q{SELECT outbox.wait_until_idle('60 s', include_delayed => true)}), 't', 'idle') }
sub audit { my ($route, $what, $since) = @_; return sql("SELECT $what FROM outbox.audit WHERE action IN ('rewind', 'lost writes') AND route = '$route' AND at > '" . ($since // '-infinity') . q(')) }

emit(20, 'log');
emit(6, 'parked', q(, deliver_at => clock_timestamp() + interval '1 s'));
idle();
comes('here', $_, 'log 20 parked 6', 'the original delivers') foreach qw(r away);
sql(q{SELECT outbox.pause('r', reason => 'a test'), outbox.pause('away', reason => 'a test')});
emit(8, 'waited');
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'a dump');
sql('CREATE DATABASE copy TEMPLATE template0');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('copy'), $dump ], 'restored');

$db = 'copy';
sql("ALTER SERVER away OPTIONS (SET port '$redis{other}->{port}')");
sql('SELECT outbox.adopt()');
sql(q{SELECT outbox.resume('r'), outbox.resume('away')});
emit(9, 'new');
idle();
comes('here', 'r', 'log 20 new 9 parked 6 waited 8', 'the copy goes on');
comes('other', 'away', 'new 9 waited 8', 'elsewhere, too');
$redis{$_}->kill9 foreach sort keys %redis;
$redis{$_}->restart foreach sort keys %redis;
comes('here', 'r', 'new 9 waited 8', 'lost: what the copy has delivered comes again');
comes('other', 'away', 'new 9 waited 8', 'elsewhere, too');
# A lane may say it a second time, where another worker takes it at that moment.
my $missing = q{SELECT sum(missing) FROM (SELECT detail ->> 'lane', max((detail ->> 'parked_events_missing')::int) AS missing FROM outbox.audit
	WHERE action IN ('rewind', 'lost writes') AND route = 'r' GROUP BY 1) x};
ok(wait_until(sub { sql($missing) eq '6' }, 60), 'the audit has how many parked events do not') or diag(audit('r', 'detail, reason'));
is(audit('r', q{coalesce(sum((detail ->> 'parked_events')::int), 0)}), '0', 'and none that do');
ok(wait_until(sub { audit('r', q{count(DISTINCT detail ->> 'lane') FILTER (WHERE action = 'rewind')}) eq '2' }, 60), 'both lanes are put back');
is(audit('r', q{string_agg(DISTINCT detail ->> 'missing_since', ' ')}), '-infinity', 'what is missing of the log begins anywhere');
is(audit('r', q{bool_and((detail ->> 'missing_before')::timestamptz = (SELECT max(l.since) FROM outbox_internal.lane l JOIN outbox.route r ON r.id = l.route_id WHERE r.name = 'r')) FILTER (WHERE detail ? 'missing_since')}), 't',
	'and ends with the adoption');
my $log = slurp_file($node->logfile);
like($log, qr/sends again what it delivered after [-0-9:. +]+; \d events? that w\w+ delivered from outbox_internal\.parked (?:is not sent: outbox\.seek\(\) or outbox\.replay\(\) sends it|are not sent: outbox\.seek\(\) or outbox\.replay\(\) sends them); what was delivered before/,
	'the log of the server says both');
ok(wait_until(sub { audit('away', 'count(*) > 0') eq 't' }, 60), 'the other has lost something, too');
is(audit('away', q{bool_or(detail ?| '{missing_since,parked_events_missing}')}), 'f', 'and nothing that the original wrote');

# As it says.
sql(q{CALL outbox.seek('r', '-infinity', dry_run => false)});
comes('here', 'r', 'log 20 new 18 parked 6 waited 16', 'moved back, it sends all');
idle();
my $moved = sql(q{SELECT max(at) FROM outbox_internal.lane_start});
$redis{here}->kill9;
$redis{here}->restart;
comes('here', 'r', 'log 20 new 9 parked 6 waited 8', 'lost again: all of it comes by itself');
idle();
ok(wait_until(sub { audit('r', 'count(DISTINCT detail ->> \'lane\')', $moved) eq '2' }, 60), 'both lanes have said so') or diag(audit('r', 'at, detail, reason'));
is(audit('r', q{bool_or(detail ?| '{missing_since,parked_events_missing}')}, $moved), 'f', 'and nothing is said to be missing') or diag(audit('r', 'detail, reason', $moved));
no_server_crashed($node);
done_testing();

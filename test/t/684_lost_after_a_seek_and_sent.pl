# After a seek() the lanes send what had been delivered from where it was parked. Where a Redis loses it, it comes again by itself,
# and nobody is told to send it. What the seek has put the lanes behind is still said to be missing.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
my $node = new_node();
redis_route($node, $redis, 'back', topic => q('back'), lanes => 2);
redis_route($node, $redis, 'part', topic => q('part'));
redis_route($node, $redis, 'ahead', topic => q('ahead'));
my @routes = qw(back part ahead);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub emit { my ($count, $type, $due) = @_; return sql(join '', map { "SELECT outbox.emit('o', '$type$_', '$type', '{}'" . ($due // '') . ");\n" } 1 .. $count) }
sub there { my ($stream) = @_; my %seen; $seen{ $_->{type} }++ foreach @{ $redis->entries($stream) }; return join ' ', map { "$_ $seen{$_}" } sort keys %seen }
sub comes { my ($stream, $want, $what) = @_; return ok(wait_until(sub { there($stream) eq $want }, 60), "$what: $want") || diag(there($stream)) }
sub idle { return is(sql(q{SELECT outbox.wait_until_idle('60 s', include_delayed => true)}), 't', 'idle') }
sub audit { my ($route, $what) = @_; return sql("SELECT $what FROM outbox.audit WHERE action IN ('rewind', 'lost writes') AND route = '$route'") }

emit(3, 'old', q(, deliver_at => clock_timestamp() + interval '1 s'));
idle();
emit(4, 'log');
my $time = sql('SELECT max(created_at) FROM outbox_internal.log');
emit(1, 'young', q(, deliver_at => clock_timestamp() + interval '1 s'));
idle();
comes($_, 'log 4 old 3 young 1', 'delivered') foreach @routes;
sql(q{CALL outbox.seek('back', '-infinity', dry_run => false)});
sql("CALL outbox.seek('part', '$time', dry_run => false)");
sql(q{CALL outbox.seek('ahead', 'infinity', dry_run => false)});
comes('back', 'log 8 old 6 young 2', 'back: all of it again');
comes('part', 'log 5 old 3 young 2', 'part: the last ones again');
idle();
emit(2, 'new');
idle();
comes($_->[0], $_->[1], 'and what is new') foreach [ back => 'log 8 new 2 old 6 young 2' ], [ part => 'log 5 new 2 old 3 young 2' ], [ ahead => 'log 4 new 2 old 3 young 1' ];

$redis->kill9;
$redis->restart;
comes('back', 'log 4 new 2 old 3 young 1', 'lost: all comes again');
comes('part', 'log 1 new 2 young 1', 'since the moment it was moved to');
comes('ahead', 'new 2', 'what came after it was moved');
ok(wait_until(sub { audit($_, 'count(DISTINCT detail ->> \'lane\')') eq ($_ eq 'back' ? '2' : '1') }, 60), "$_: all its lanes have said so") foreach @routes;
is(audit('back', q{bool_or(detail ?| '{missing_since,parked_events_missing}')}), 'f', 'back: nothing is said to be missing') or diag(audit('back', 'detail, reason'));
is(audit('part', q{max((detail ->> 'parked_events_missing')::int)}), '3', 'part: the older ones are') or diag(audit('part', 'detail, reason'));
is(audit('ahead', q{max((detail ->> 'parked_events_missing')::int)}), '4', 'ahead: all are') or diag(audit('ahead', 'detail, reason'));
unlike(slurp_file($node->logfile), qr/route "back".*(?:is|are) not sent/, 'back: nor by the log of the server');
like(slurp_file($node->logfile), qr/route "part".*; 3 events that were delivered from outbox_internal\.parked are not sent: outbox\.seek\(\) or outbox\.replay\(\) sends them/, 'part: by that, too');
no_server_crashed($node);
done_testing();

# Two things that the keeper cannot do, for the same reason: the server's log tells of both within the minute, and which they are. Before,
# the first in the row hid all others for as long as it lasted.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
$node->safe_psql('postgres', q(CREATE SERVER nowhere FOREIGN DATA WRAPPER outbox_null; SELECT outbox.create_route('all', server => 'nowhere')));
ok(wait_idle($node), 'there is a keeper');
my $locker = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$locker->query_safe('BEGIN; LOCK TABLE outbox.replay, outbox_internal.lane IN ACCESS EXCLUSIVE MODE');
upkeep($node);
my $told = sub { return join ', ', sort map { /outbox keeper(?:, ([^:]*))?: canceling statement due to lock timeout/ ? $1 // '?' : () } split /\n/, slurp_file($node->logfile) };
# Lanes are looked at by several steps of each cycle.
ok(wait_until(sub { $told->() =~ /interrupted replays, .*relay workers/ }, 30), 'the log tells of a table of replays that is locked, and of one of lanes') or diag($told->());
my %of;
$of{$_}++ foreach split /, /, $told->();
is(join(' ', grep { $of{$_} > 1 } sort keys %of), '', 'each once') or diag($told->());
$locker->query_safe('COMMIT');
$locker->quit;
no_server_crashed($node);
done_testing();

# matrix: E-5
# A default option that is written out, or taken out again, leaves the Redis what it was: what it had acknowledged counts
# as acknowledged here, and is sent again when it has been lost. So does what was acknowledged under the options of a
# while ago, when they come back.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

foreach my $case (
    [ 'written', '', [q(ADD db '0')] ],
    [ 'taken', q(, db '0'), ['DROP db'] ],
    [ 'elsewhere', '', [ q(ADD db '3'), q(SET db '0') ] ],
) {
    my ($name, $options, $alters) = @$case;
    my $redis = Outbox::Redis->start;
    redis_route($node, $redis, $name, aggregate_types => "'{$name}'", topic => q('s'), server_options => $options);
    sql(qq{SELECT outbox.emit('$name', (i % 10)::text, 'x', '{}') FROM generate_series(1, 100) i});
    ok(wait_until(sub { $redis->xlen('s') == 100 }, 60), "$name: all arrives");
    ok(wait_idle($node), "$name: and is saved");
    foreach my $alter (@$alters[ 0 .. $#$alters - 1 ]) {
        sql("ALTER SERVER $name OPTIONS ($alter)");
        sql(qq{SELECT outbox.emit('$name', 'k', 'x', '{}')});
        ok(wait_idle($node), "$name: idle after $alter");
    }
    $redis->command('DEL', 's');
    $redis->restart;
    sql("ALTER SERVER $name OPTIONS ($alters->[-1])");
    sql(qq{SELECT outbox.emit('$name', (i % 10)::text, 'x', '{}') FROM generate_series(1, 10) i});
    ok(wait_for_value($node, "SELECT count(*) > 0 FROM outbox.audit WHERE action = 'rewind' AND route = '$name'", 't', 60),
        "$name: the loss is found");
    ok(wait_until(sub { $redis->xlen('s') >= 110 }, 60), "$name: what was lost is there again") or diag $redis->xlen('s');
    ok(wait_idle($node), "$name: idle");
}

no_server_crashed($node);
done_testing();

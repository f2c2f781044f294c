# matrix: E-5
# A Redis restarts without what it had acknowledged while its user may not call XINFO, so nobody knows; events go on, to the
# same stream. Once the right is given back that run is asked, and what is lost is sent again. One that has lost nothing, and
# was written to by then, is asked, too: nothing is sent again.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub user { my (@more) = @_; return $redis->command('ACL', 'SETUSER', 'ob', 'on', '>pw', '~*', qw(-@all +multi +exec +discard +info +xrevrange +xadd +ping), @more) }
sub warned { return sql(q{SELECT count(*) FROM outbox.destination WHERE error_code = 'NO_LOSS_CHECK'}) }
sub meetings { return sql('SELECT coalesce(max(number), 0) FROM outbox_internal.server_run') }
sub rewinds { return sql(q{SELECT count(*) FROM outbox.audit WHERE action = 'rewind'}) }
my %sent = (a => 0, b => 0);
sub emit { my ($type, $count) = @_; emit_counted($node, $type, ['k'], $sent{$type} + 1, $sent{$type} += $count); return }
sub payloads { my ($stream) = @_; return by_key([ grep { defined } map { $_->{payload} } @{ $redis->forget->entries($stream) } ])->{k} // '' }
sub at_rest { my ($what) = @_; ok(wait_idle($node, 60), "$what: idle"); return ok(wait_for_value($node, q{SELECT count(*) FROM outbox.lag WHERE inflight > 0}, 0, 60), "$what: acknowledged") }
sub given_back
{
	my ($what) = @_;
	my $meetings = meetings();
	user('+xinfo');
	ok(wait_until(sub { meetings() > $meetings }, 60), "$what: the run is met again");
	ok(wait_until(sub { warned() == 0 && sql(q{SELECT state FROM outbox.destination}) eq 'closed' }, 60), "$what: the warning goes");
	return;
}

user();
sql("CREATE SERVER r FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}'); CREATE USER MAPPING FOR PUBLIC SERVER r OPTIONS (username 'ob', password 'pw')");
sql(q{SELECT outbox.create_route('r', server => 'r', topic => '{aggregate_type}')});
emit('a', 20);
at_rest('no right');
ok(wait_until(sub { warned() == 1 }, 60), 'without XINFO: told');
emit('b', 5);
at_rest('no right');
given_back('nothing lost');
emit('a', 20);
emit('b', 5);
at_rest('nothing lost');
is(payloads($_), join(' ', 1 .. $sent{$_}), "nothing lost: each of $_ is there once") foreach qw(a b);

user('-xinfo');
ok(wait_until(sub { warned() == 1 }, 60), 'taken while connected: told, though events go on over that connection');
emit('a', 10);
at_rest('taken');

# The same process, but for another connection: what it acknowledged meanwhile to a stream that was asked about is there, and to one that was not.
$redis->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
emit('b', 5);
at_rest('another connection');
given_back('the same process');
emit($_, 1) foreach qw(a b);
at_rest('the same process');
is(payloads($_), join(' ', 1 .. $sent{$_}), "the same process: each of $_ is there once") foreach qw(a b);
is(rewinds(), 0, 'nothing was put back');

user('-xinfo');
ok(wait_until(sub { warned() == 1 }, 60), 'taken again: told');
$redis->kill9;
$redis->restart;
user();
my $lost = $sent{a};
emit('a', 5);
at_rest('restarted empty');
is(payloads('a'), join(' ', $lost + 1 .. $sent{a}), 'restarted empty: what is new is there');
is(rewinds(), 0, 'restarted empty: nobody knows');
is(warned(), 1, 'restarted empty: but that is told');
user('+xinfo');
ok(wait_until(sub { rewinds() > 0 }, 60), 'given back: it is asked, and the lane put back');
at_rest('given back');
foreach my $type (qw(a b))
{
	my %seen;
	my @got = split / /, payloads($type);
	is(join(' ', sort { $a <=> $b } grep { !$seen{$_}++ } @got), join(' ', 1 .. $sent{$type}), "given back: all of $type is there");
}
is(warned(), 0, 'given back: no warning');
no_server_crashed($node);
done_testing();

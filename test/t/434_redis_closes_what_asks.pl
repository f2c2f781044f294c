# A Redis that closes the connection of who asks it about a stream, since the answer is larger than client-output-buffer-limit:
# after a restart in good order events are delivered all the same, and it is said which stream was not looked at. One that loses
# something in a stream with small entries is noticed beside it.
# matrix: E-5
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $redis = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""', 'client-output-buffer-limit normal 256kb 0 0' ]);
my $node = new_node();
redis_route($node, $redis, 'redis', topic => q('{aggregate_type}'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub emit
{
	my ($stream, @numbers) = @_;
	sql("SELECT outbox.emit('$stream', 'k', '$_', jsonb_build_object('x', repeat('x', CASE '$stream' WHEN 'large' THEN 900000 ELSE 1 END)))") foreach @numbers;
	return;
}
# In the order in which each came first.
sub types { my ($stream) = @_; my %seen; return join ' ', grep { !$seen{$_}++ } map { $_->{type} } @{ $redis->entries($stream) } }
sub restart_redis { $redis->kill9; $redis->restart; return }

emit('small', 1 .. 3);
emit('large', 1);  # the last of all, so that nothing that is there is younger
ok(wait_idle($node), 'events are delivered');
$redis->command('SAVE');
restart_redis();
emit('small', 4);
ok(wait_idle($node), 'and after a restart of Redis') or diag(sql('SELECT string_agg(d::text, chr(10)) FROM outbox.destination d'));
is($redis->xlen('large') . ' ' . $redis->xlen('small'), '1 4', 'nothing twice');
my $doctor = q{SELECT string_agg(status || ': ' || detail, '; ') FROM outbox.doctor() WHERE "check" = 'destination'};
ok(wait_until(sub { sql($doctor) =~ /NO_LOSS_CHECK: the Redis server closed the connection \d+ times when it was asked what it has of stream "large"/ }, 30), 'doctor() says what was not looked at')
	or diag(sql($doctor));
my $warnings = () = slurp_file($node->logfile) =~ /WARNING:  outbox: destination "redis" is used, but the Redis server closed the connection/g;
is($warnings, 1, 'so does the log');
unlike(slurp_file($node->logfile), qr/has lost what it had acknowledged/, 'which tells of no loss');

sub limit { my ($size) = @_; $redis->command('CONFIG', 'SET', 'client-output-buffer-limit', "normal $size 0 0"); $redis->command('CONFIG', 'REWRITE'); return }
limit('100mb');
$redis->command('SAVE');
restart_redis();
emit('small', 5);
ok(wait_idle($node), 'where the limit is above the answer');
ok(wait_until(sub { sql($doctor) eq '' }, 30), 'all is well') or diag(sql($doctor));

limit('256kb');
$redis->command('SAVE');
emit('small', 6, 7);
ok(wait_idle($node), 'more events');
restart_redis();
emit('small', 8);
ok(wait_until(sub { types('small') =~ /8/ }, 120), 'what is lost beside it');
ok(wait_idle($node), 'is sent again');
is(types('small'), '1 2 3 4 5 6 7 8', 'all of it, in order');
is($redis->xlen('large'), 1, 'and no more');
no_server_crashed($node);
$redis->stop;
done_testing();

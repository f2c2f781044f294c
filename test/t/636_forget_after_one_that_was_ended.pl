# forget(..., undelivered => true) whose session is ended before it has erased, or before it has noted that it has: status() says that it does not
# know how that ended. Another call for the key knows, and says so of its own key only.
use strict;
use warnings;

use IPC::Run ();
use Outbox::Faults;
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.lone_emit = allow\n");
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'a', topic => q('a'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub emit { my ($key) = @_; return sql(qq(SELECT outbox.emit('person', '$key', 'e', '{"n": "$key"}'))) }
sub state_of { my ($id) = @_; return sql(qq(SELECT state || coalesce(' ' || error_message, '') FROM outbox.status('$id'))) }
sub kept { my ($id) = @_; return sql("SELECT payload <> '' FROM outbox_internal.log WHERE id = '$id'") }
sub end_one
{
	my ($key, $at) = @_;
	my $said = '';
	Outbox::Faults::arm($at, 'wait');
	my $call = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "CALL outbox.forget('person', '$key', undelivered => true, dry_run => false)" ],
		'<', \undef, '>&', \$said, IPC::Run::timeout(180));
	ok(Outbox::Faults::await_waiting($at), "$key: at $at");
	is(sql(q(SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'CALL outbox.forget%')), '1', "$key: its session is ended");
	Outbox::Faults::release($at);
	$call->finish;
	return ok(wait_for_value($node, q(SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL outbox.forget%'), '0', 60), "$key: it is gone");
}

sql(q(SELECT outbox.emit('person', 'x', 'e', '{}')));
ok(wait_idle($node), 'the route works');
sql(q(SELECT outbox.pause('a', reason => 'maintenance')));
ok(wait_for_value($node, q(SELECT bool_and(state = 'paused') FROM outbox.lag), 't', 60), 'paused');
my %id = map { $_ => emit($_) } qw(noted erased left);
end_one('noted', 'forget.given_up');
end_one('left', 'forget.given_up');
end_one('erased', 'forget.erased');
is(kept($id{$_->[0]}), $_->[1], "$_->[0]: kept: $_->[1]") foreach [ noted => 't' ], [ left => 't' ], [ erased => 'f' ];
my $open = qr/^skipped outbox\.forget\(\) was about to erase it, and has not told how it ended; it may have been sent$/;
like(state_of($id{$_}), $open, "$_: status() does not know") foreach sort keys %id;

# Again. What the first call had given up counts as given up, also for one that gives up nothing.
is(sql(q(CALL outbox.forget('person', 'noted', dry_run => false))), '1|0', 'noted: another call erases it');
is(sql(q(CALL outbox.forget('person', 'erased', undelivered => true, dry_run => false))), '0|0', 'erased: another call finds nothing to erase');
my $known = qr/^skipped erased by outbox\.forget\(\), of which a call was ended before it could note that; it may have been sent before$/;
like(state_of($id{$_}), $known, "$_: status() knows") foreach qw(noted erased);
like(state_of($id{left}), $open, 'left: nothing is said of another key');

sql(q(SELECT outbox.resume('a')));
ok(wait_idle($node), 'resumed');
is(scalar(grep { /noted|erased/ } map { $_->{payload} // () } @{ $redis->entries('a') }), 0, 'what is erased never comes');
is(scalar(grep { /left/ } map { $_->{payload} // () } @{ $redis->entries('a') }), 1, 'what is not is sent all the same');
no_server_crashed($node);
$node->stop;
done_testing();

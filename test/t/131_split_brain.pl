# A standby is promoted while its primary goes on: both publish to the same stream. Consumers that drop repeats by id see
# each server's history whole and in order: what both know has the same id and the same bytes, what only one knows has
# an id of its own.
# matrix: C2
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(sleep);

my $redis = Outbox::Redis->start;
my $old = PostgreSQL::Test::Cluster->new('old');
$old->init(allows_streaming => 1);
$old->append_conf('postgresql.conf', "log_min_messages = info\n");
$old->start;
$old->safe_psql('postgres', 'CREATE EXTENSION outbox');
Outbox::Ledger::install($old);
redis_route($old, $redis, 'redis', topic => q('ledger'), lanes => 2);
$old->backup('base');
my $new = PostgreSQL::Test::Cluster->new('new');
$new->init_from_backup($old, 'base', has_streaming => 1);
$new->start;

my $load = Outbox::Ledger::start_load($old, seconds => 300, clients => 2, rate => 30, name => 'old');
ok(wait_until(sub { $redis->xlen('ledger') > 1500 }), 'events flow from the primary');
$new->promote;
my $known = Outbox::Ledger::total($new);
my $more = Outbox::Ledger::start_load($new, seconds => 300, clients => 2, rate => 30, name => 'new');
my $before = $redis->xlen('ledger');
ok(wait_until(sub { Outbox::Ledger::total($new) > $known + 500 && $redis->xlen('ledger') > $before + 3000 }), 'and go on after its standby was promoted');
ok(Outbox::Ledger::end_load($load), 'no session of the old primary met an error');
ok(Outbox::Ledger::end_load($more), 'nor one of the new');
ok(wait_idle($_), $_->name . ' has delivered all') foreach $old, $new;

my (%copies, %contents, @order);
foreach my $entry (@{ $redis->entries('ledger') })
{
	my $id = $entry->{id};
	push @order, $entry if !$copies{$id}++;
	$contents{$id}{ join '|', map { "$_=$entry->{$_}" } grep { $_ ne '_entry' } sort keys %$entry } = 1;
}
is(scalar(grep { keys %{ $contents{$_} } > 1 } keys %contents), 0, 'an id has the same bytes wherever it comes from');
my %logs;
foreach my $node ($old, $new)
{
	my $name = $node->name;
	$logs{$name} = { map { $_ => 1 } split /\n/, $node->safe_psql('postgres', 'SELECT id FROM outbox_internal.log') };
	Outbox::Ledger::check($node, "$name, repeats dropped", [ map { $_->{payload} } grep { $logs{$name}{ $_->{id} } } @order ]);
}
is(scalar(grep { !$logs{old}{$_} && !$logs{new}{$_} } keys %copies), 0, 'nothing that neither knows');
my @both = grep { $logs{new}{$_} } keys %{ $logs{old} };
cmp_ok(scalar(@both), '>', 0, scalar(@both) . ' events are of both');
cmp_ok(scalar(grep { !$logs{old}{$_} } keys %{ $logs{new} }), '>', 0, 'and some are of the new one alone');
cmp_ok(scalar(grep { !$logs{new}{$_} } keys %{ $logs{old} }), '>', 0, 'and some of the old one');
no_server_crashed($_, 'no process of ' . $_->name . ' crashed') foreach $old, $new;
done_testing();

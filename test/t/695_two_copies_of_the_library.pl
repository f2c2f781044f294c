# The server has preloaded another copy of the library than the functions of the extension are in: everything that needs these says
# which two there are and what to do, and that helps.
# matrix: C7
use strict;
use warnings;

use File::Find;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
sub sql { return $node->safe_psql('postgres', $_[0]) }
my @libraries;
chomp(my $installed = `pg_config --pkglibdir`);
find(sub { push @libraries, $File::Find::name if /^outbox(?:\.so|-sink-.*)$/ }, -d $ENV{OUTBOX_STAGE} ? $ENV{OUTBOX_STAGE} : $installed);
my ($library) = grep { /outbox\.so$/ } @libraries;
ok(defined $library, 'there is a library') or BAIL_OUT('none');
my $copy = PostgreSQL::Test::Utils::tempdir() . '/copy';
mkdir $copy or die $!;
chmod 0755, PostgreSQL::Test::Utils::tempdir(), $copy;
system('cp', @libraries, $copy) == 0 or die 'cp';

# Written for a database, it is no setting of a library yet.
sql(q(ALTER DATABASE postgres SET outbox.lone_emit = 'allow'));
my ($usual) = slurp_file($node->data_dir . '/postgresql.conf') =~ /^.*^shared_preload_libraries\s*=\s*'([^']*)'/ms;
my $told = qr/another copy of the library of outbox is loaded already.*DETAIL:  Loaded is "\Q$copy\E\/outbox(?:\.so)?", and this one is "[^"]*\/outbox(?:\.so)?".*HINT:  .*have shared_preload_libraries name it as 'outbox'/s;
$node->append_conf('postgresql.conf', "shared_preload_libraries = '" . ($usual =~ s{(?<![^,\s])outbox(?![^,\s])}{$copy/outbox}r) . "'");
my $end = -s $node->logfile;
$node->restart;
foreach my $call (q(emit('order', 1, 'created', '{}')), 'doctor()', 'version()')
{
	like(($node->psql('postgres', "SELECT outbox.$call"))[2], $told, "said by $call");
}
ok($node->wait_for_log($told, $end), 'and by the launcher, in the log');
$node->append_conf('postgresql.conf', "shared_preload_libraries = '$usual'");
$node->restart;
like(sql('SELECT outbox.version()'), qr/^library/, 'what is advised helps');

# Not preloaded: each session loads it, and what is set for the database is no other copy's.
$node->append_conf('postgresql.conf', "shared_preload_libraries = '" . join(',', grep { $_ ne 'outbox' } split /\s*,\s*/, $usual) . "'");
$node->restart;
is(sql('SHOW outbox.lone_emit'), 'allow', 'a setting without a library');
like(sql('SELECT outbox.version()'), qr/^library/, 'is no other library');
no_server_crashed($node);
done_testing();

# Where the server preloads other libraries and not this one, what doctor() says to write keeps those, and works.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'plpgsql'\nsession_preload_libraries = ''\n");
$node->restart;
$node->psql('postgres', 'CREATE EXTENSION outbox');
my $hint = $node->safe_psql('postgres', q{SELECT hint FROM outbox.doctor() WHERE "check" = 'preload' AND status = 'problem'});
my ($line) = $hint =~ /(shared_preload_libraries = '[^']*')/;
is($line, q{shared_preload_libraries = 'plpgsql, outbox'}, 'the line has all that is preloaded, and outbox');
$node->append_conf('postgresql.conf', "$line\n");
$node->restart;
is($node->safe_psql('postgres', q{SELECT status FROM outbox.doctor() WHERE "check" = 'preload'}), 'ok', 'and does it');
no_server_crashed($node);
done_testing();

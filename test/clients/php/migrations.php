<?php
// What Doctrine's schema tools make of a database that has the extension: one line of JSON for each question, for
// test/clients/migrations.pl.
require 'Doctrine/DBAL/autoload.php';

use Doctrine\DBAL\Configuration;
use Doctrine\DBAL\Connection;
use Doctrine\DBAL\DriverManager;
use Doctrine\DBAL\Schema\Comparator;
use Doctrine\DBAL\Schema\Schema;

function connection(?callable $filter = null): Connection
{
    $configuration = new Configuration();
    if ($filter) {
        $configuration->setSchemaAssetsFilter($filter);
    }
    return DriverManager::getConnection(['driver' => 'pdo_pgsql', 'host' => getenv('PGHOST'), 'port' => getenv('PGPORT'),
        'user' => getenv('PGUSER'), 'dbname' => getenv('PGDATABASE')], $configuration);
}

// What `doctrine:schema:update` and `migrations:diff` would run for an application that maps orders, customers and shipments alone.
function statements(Connection $connection): array
{
    $manager = $connection->createSchemaManager();
    $now = $manager->introspectSchema();
    $wanted = new Schema(array_filter($now->getTables(), fn ($table) => strpos($table->getName(), 'outbox') === false),
        array_filter($now->getSequences(), fn ($sequence) => strpos($sequence->getName(), 'outbox') === false));
    return $manager->createComparator()->compareSchemas($now, $wanted)->toSql($connection->getDatabasePlatform());
}

function test(string $case, callable $run): void
{
    try {
        $what = $run();
    } catch (Throwable $error) {
        $what = ['error' => $error->getMessage()];
    }
    echo json_encode(['case' => $case] + $what), "\n";
}

test('doctrine', fn () => ['statements' => statements(connection())]);
// With every type that it asks for made known to it.
test('doctrine_types', function () {
    $connection = connection();
    for ($known = 0; $known < 100; $known++) {
        try {
            return ['statements' => statements($connection)];
        } catch (Doctrine\DBAL\Exception $error) {
            if (!preg_match('~Unknown database type (\S+) requested~', $error->getMessage(), $match)) {
                throw $error;
            }
            $connection->getDatabasePlatform()->registerDoctrineTypeMapping($match[1], 'string');
        }
    }
});
// page: doctrine
$filter = fn ($asset) => !preg_match('~^outbox(_internal)?\.~', $asset instanceof \Doctrine\DBAL\Schema\AbstractAsset ? $asset->getName() : $asset);
// page end
test('doctrine_set', fn () => ['statements' => statements(connection($filter))]);

<?php
// What a shop's page does with Debian's default extensions: documents, text, tables, a database and
// transfers. Prints one checksum for each; arguments: a file to fetch, a database to make.
function check(string $what, mixed $value): void {
    echo $what, ' ', md5(is_string($value) ? $value : serialize($value)), "\n";
}

$items = [];
for ($i = 0; $i < 4000; ++$i) {
    $items[] = ['id' => $i, 'name' => "Größe $i", 'tags' => array_fill(0, $i % 7, "t$i"), 'price' => $i / 8];
}
$json = json_encode($items, JSON_UNESCAPED_UNICODE);
check('json', $json);
check('decoded', array_sum(array_column(json_decode($json, true), 'price')));

$document = new DOMDocument('1.0', 'UTF-8');
$root = $document->appendChild($document->createElement('items'));
foreach ($items as $item) {
    $node = $root->appendChild($document->createElement('item'));
    $node->setAttribute('id', (string)$item['id']);
    $node->appendChild($document->createTextNode($item['name']));
}
$xml = $document->saveXML();
check('dom', $xml);
$again = new DOMDocument();
$again->loadXML($xml);
$found = (new DOMXPath($again))->query('//item[@id mod 100 = 7]');
check('xpath', $found->length);
check('simplexml', count(simplexml_load_string($xml)->item));
$reader = new XMLReader();
$reader->XML($xml);
for ($nodes = 0; $reader->read(); ++$nodes);
check('reader', $nodes);
libxml_use_internal_errors(true);
(new DOMDocument())->loadXML('<a><b></a>');
check('errors', count(libxml_get_errors()));
$style = new DOMDocument();
$style->loadXML('<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform">'
    . '<x:template match="/"><n><x:value-of select="count(//item)"/></n></x:template></x:stylesheet>');
$processor = new XSLTProcessor();
$processor->importStylesheet($style);
check('xslt', $processor->transformToXML($again));

$text = str_repeat('Fluß, 川, река; ', 3000);
check('mbstring', mb_convert_encoding(mb_strtoupper($text), 'UTF-16', 'UTF-8'));
check('mb_split', count(mb_split('[;,]', $text)));
check('iconv', iconv('UTF-8', 'UTF-16LE', $text));
check('pcre', preg_replace_callback('/(\w+), (\S)/u', fn($m) => strrev($m[1]), $text));
check('ctype', ctype_alpha('abc'));

$database = new SQLite3($argv[2]);
$database->exec('create table item (id integer primary key, name text, price real)');
$database->exec('begin');
$insert = $database->prepare('insert into item values (:id, :name, :price)');
foreach ($items as $item) {
    $insert->bindValue(':id', $item['id']);
    $insert->bindValue(':name', $item['name']);
    $insert->bindValue(':price', $item['price']);
    $insert->execute();
    $insert->reset();
}
$database->exec('commit');
check('sqlite', $database->querySingle('select count(*), sum(price), max(name) from item', true));
$pdo = new PDO("sqlite:$argv[2]");
check('pdo', $pdo->query("select name from item where name like '%99%'")->fetchAll());

$many = curl_multi_init();
$handles = [];
for ($i = 0; $i < 8; ++$i) {
    $handles[$i] = curl_init("file://$argv[1]");
    curl_setopt_array($handles[$i], [CURLOPT_RETURNTRANSFER => true, CURLOPT_RANGE => "$i-"]);
    curl_multi_add_handle($many, $handles[$i]);
}
do {
    curl_multi_exec($many, $running);
} while ($running > 0);
foreach ($handles as $i => $handle) {
    check("curl $i", curl_multi_getcontent($handle));
    curl_multi_remove_handle($many, $handle);
}
check('hash', hash('sha512', $text));
check('openssl', openssl_digest($text, 'sha256'));
check('zlib', gzuncompress(gzcompress($text)) === $text);
check('session', class_exists('SessionHandler'));
check('readline', function_exists('readline'));
check('date', (new DateTime('2020-02-29', new DateTimeZone('Europe/Berlin')))->modify('+1 year')->format('c'));
echo count(get_loaded_extensions()) > 20 ? "done\n" : "extensions are missing\n";

package headwater.conformance;

import java.io.InputStream;
import java.io.OutputStream;
import java.util.Map;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.SupportsPrefixOperations;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.types.Types;

/** Iceberg's own client on S3 without a key of its own: writes and reads one table, and tries the files of another one. */
public class FilesOfOneTable {
  private static final Schema SCHEMA = new Schema(Types.NestedField.optional(1, "id", Types.LongType.get()));

  public static void main(String[] arguments) throws Exception {
    Map<String, String> properties =
        Map.of(
            "uri", arguments[0],
            "warehouse", arguments[1],
            "header.X-Iceberg-Access-Delegation", arguments[2],
            "io-impl", "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.path-style-access", "true");
    try (RESTCatalog catalog = new RESTCatalog()) {
      catalog.initialize("lake", properties);
      Namespace namespace = Namespace.of("java_" + arguments[2].replace('-', '_'));
      catalog.createNamespace(namespace);
      Table other = filled(catalog, TableIdentifier.of(namespace, "other"));
      Table mine = filled(catalog, TableIdentifier.of(namespace, "mine"));
      System.out.println("files " + listed(mine));
      String theirs = other.currentSnapshot().manifestListLocation();
      System.out.println("read " + refusal(() -> read(mine.io(), theirs)));
      System.out.println("write " + refusal(() -> write(mine.io(), other.location() + "/data/forged")));
      System.out.println("list " + refusal(() -> ((SupportsPrefixOperations) mine.io()).listPrefix(other.location() + "/").iterator().hasNext()));
    }
  }

  private static Table filled(RESTCatalog catalog, TableIdentifier name) throws Exception {
    Table table = catalog.buildTable(name, SCHEMA).create();
    String location = table.location() + "/data/a b+c=d.parquet";
    write(table.io(), location);
    DataFile file = DataFiles.builder(PartitionSpec.unpartitioned()).withPath(location).withFileSizeInBytes(7).withRecordCount(1).build();
    table.newAppend().appendFile(file).commit();
    Table loaded = catalog.loadTable(name);
    try (var tasks = loaded.newScan().planFiles()) {
      for (var task : tasks) {
        read(loaded.io(), task.file().location());
      }
    }
    return loaded;
  }

  private static void write(FileIO io, String location) throws Exception {
    try (OutputStream out = io.newOutputFile(location).create()) {
      out.write("content".getBytes());
    }
  }

  private static void read(FileIO io, String location) throws Exception {
    try (InputStream in = io.newInputFile(location).newStream()) {
      in.readAllBytes();
    }
  }

  private static int listed(Table table) {
    int count = 0;
    for (var ignored : ((SupportsPrefixOperations) table.io()).listPrefix(table.location() + "/")) {
      count++;
    }
    return count;
  }

  private interface Attempt {
    void run() throws Exception;
  }

  private static String refusal(Attempt attempt) {
    try {
      attempt.run();
      return "allowed";
    } catch (Exception refused) {
      return "refused " + refused.getMessage();
    }
  }
}

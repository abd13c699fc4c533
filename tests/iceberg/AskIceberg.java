import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.hadoop.HadoopTables;

/** Prints the first column of each given table: a directory, as Hadoop tables find it, or a metadata file. */
public class AskIceberg {
    public static void main(String[] locations) throws Exception {
        Configuration configuration = new Configuration();
        for (String location : locations) {
            Table table =
                location.endsWith(".json")
                    ? new BaseTable(
                        new StaticTableOperations(location, new HadoopFileIO(configuration)), location)
                    : new HadoopTables(configuration).load(location);
            StringBuilder line = new StringBuilder("rows");
            try (var rows = IcebergGenerics.read(table).build()) {
                for (var row : rows) {
                    line.append(' ').append(row.get(0));
                }
            }
            System.out.println(line);
        }
    }
}
